/** Short messages about completed actions; they disappear automatically. */
import { useSyncExternalStore } from "react";
import { Link } from "wouter";

import { Store } from "../store";
import { useText } from "../text";
import { IconButton } from "./button";
import { Text } from "./text-view";
import styles from "./toast.module.css";
import { text } from "./words";

interface Message {
  id: number;
  says: string;
  failed: boolean;
  link?: { href: string; label: string };
}

interface ToastOptions {
  failed?: boolean;
  /** Leads to what the message is about. */
  link?: { href: string; label: string };
}

const messages = new Store<readonly Message[]>([]);
const SHOWN_FOR = 5000;
/** A message with a link: reading takes longer, and then the pointer has to get there. */
const LINK_SHOWN_FOR = 15_000;
let count = 0;

/** Shows a message; one about a failure stays until it is closed. */
export function toast(says: string, { failed = false, link }: ToastOptions = {}): void {
  const id = (count += 1);
  messages.set([...messages.value, { id, says, failed, link }].slice(-4));
  if (!failed) window.setTimeout(() => close(id), link ? LINK_SHOWN_FOR : SHOWN_FOR);
}

function close(id: number): void {
  messages.set(messages.value.filter((message) => message.id !== id));
}

/** Where messages appear: once, in the shell. */
export function Toasts() {
  const t = useText(text);
  const shown = useSyncExternalStore(messages.subscribe, messages.read);
  return (
    <div className={styles.toasts} role="status">
      {shown.map((message) => (
        <div key={message.id} className={styles.toast} data-failed={message.failed || undefined}>
          <span>
            <Text>{message.says}</Text>{" "}
            {message.link && (
              <Link href={message.link.href} onClick={() => close(message.id)}>
                {message.link.label}
              </Link>
            )}
          </span>
          <IconButton icon="close" label={t.close} onClick={() => close(message.id)} />
        </div>
      ))}
    </div>
  );
}
