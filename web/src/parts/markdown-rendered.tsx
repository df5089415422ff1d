/** Markdown as elements: no raw HTML, no remote images, links only to the web and to mail. */
import type { ReactNode } from "react";
import ReactMarkdown from "react-markdown";
import type { Components } from "react-markdown";
import remarkGfm from "remark-gfm";

import { useText } from "../text";
import { Highlight } from "./highlight";
import { fenceLanguage } from "./language";
import { safeAddress } from "./links";
import styles from "./markdown.module.css";
import { text as words } from "./words";

function Link({ href, children }: { href?: string; children?: ReactNode }) {
  const address = href ? safeAddress(href) : null;
  if (!address) return <span title={href}>{children}</span>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer" title={address}>
      {children}
    </a>
  );
}

/** Loading an image would reveal the reader to its server: it becomes a link. */
function Image({ src, alt }: { src?: string | Blob; alt?: string }) {
  const t = useText(words);
  return <Link href={typeof src === "string" ? src : undefined}>{`${t.image}: ${alt || String(src)}`}</Link>;
}

/** Looks like a heading but is none: a message cannot add headings to the page. */
function Heading({ children }: { children?: ReactNode }) {
  return (
    <p dir="auto" className={styles.heading}>
      {children}
    </p>
  );
}

/** Code in a line, or a fence whose language may be known. */
function Program({ name, children }: { name: string; children?: ReactNode }) {
  const language = fenceLanguage(/language-(\S+)/.exec(name)?.[1] ?? "");
  return <code>{typeof children === "string" ? <Highlight text={children} language={language} /> : children}</code>;
}

const COMPONENTS: Components = {
  a: ({ href, children }) => <Link href={href}>{children}</Link>,
  img: ({ src, alt }) => <Image src={src} alt={alt} />,
  h1: ({ children }) => <Heading>{children}</Heading>,
  h2: ({ children }) => <Heading>{children}</Heading>,
  h3: ({ children }) => <Heading>{children}</Heading>,
  h4: ({ children }) => <Heading>{children}</Heading>,
  h5: ({ children }) => <Heading>{children}</Heading>,
  h6: ({ children }) => <Heading>{children}</Heading>,
  p: ({ children }) => <p dir="auto">{children}</p>,
  li: ({ children }) => <li dir="auto">{children}</li>,
  input: ({ checked }) => <span>{checked ? "☑ " : "☐ "}</span>,
  table: ({ children }) => (
    <div className={styles.table}>
      <table>{children}</table>
    </div>
  ),
  code: ({ className, children }) => <Program name={className ?? ""}>{children}</Program>,
  // Focus makes wide code scrollable by keyboard.
  // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
};

export default function Rendered({ text }: { text: string }) {
  return (
    <div className={styles.markdown} dir="auto">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={COMPONENTS} urlTransform={(url) => url}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
