/** A picture of a message or result; or what was there, where it cannot be shown. */
import { useState } from "react";

import type { TextPiece } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Icon, Text } from "../../../parts";
import { useText } from "../../../text";
import styles from "./media.module.css";
import { text } from "./text";

type Info = NonNullable<TextPiece["media"]>;

function useWords(): (info: Info, broken: boolean) => string {
  const t = useText(text).media;
  const f = useFormat();
  return (info, broken) => {
    const [family = "", kind = ""] = info.media_type.split("/");
    const families: Record<string, string> = t.families;
    const name = Object.hasOwn(families, family) ? families[family] : t.families.image;
    const reason = info.problem ?? (broken ? "damaged" : null);
    const parts = [name, kind.replace(/\+xml$/, "").toUpperCase(), info.bytes === null ? "" : f.size(info.bytes), reason === null ? "" : t.problems[reason]];
    return parts.filter((part) => part !== "").join(t.comma);
  };
}

export function Media({ info }: { info: Info }) {
  const t = useText(text).media;
  const words = useWords();
  const [broken, setBroken] = useState(false);
  const said = words(info, broken);
  if (info.url === null || broken) {
    return (
      <p className={styles.instead}>
        <Icon name="picture" /> <span>{said}</span>
        {info.place !== null && <Text mono>{info.place}</Text>}
      </p>
    );
  }
  return (
    <figure className={styles.picture}>
      <a href={info.url} target="_blank" rel="noopener noreferrer" title={t.open}>
        <img src={info.url} alt={said} decoding="async" onError={() => setBroken(true)} />
      </a>
      <figcaption>{said}</figcaption>
    </figure>
  );
}
