/** Things to press: buttons, buttons with only a drawing, links that look like buttons. */
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { Link } from "wouter";

import styles from "./button.module.css";
import type { IconName } from "./icon";
import { Icon } from "./icon";

export type ButtonTone = "plain" | "main" | "danger" | "quiet";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  tone?: ButtonTone;
  icon?: IconName;
  small?: boolean;
  /** In progress: cannot be pressed again, and shows it. */
  busy?: boolean;
}

export function Button({ tone = "plain", icon, small, busy, children, className = "", disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={`${styles.button} ${styles[tone]} ${small ? styles.small : ""} ${className}`}
    >
      {busy ? <span className={styles.spinner} aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "children"> {
  icon: IconName;
  /** Read out, and shown as a hint. */
  label: string;
  pressed?: boolean;
}

export function IconButton({ icon, label, pressed, className = "", ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      title={label}
      {...rest}
      aria-label={label}
      aria-pressed={pressed}
      className={`${styles.icon} ${className}`}
    >
      <Icon name={icon} />
    </button>
  );
}

interface LinkButtonProps {
  href: string;
  tone?: ButtonTone;
  icon?: IconName;
  small?: boolean;
  /** A file to save instead of a page to go to. */
  download?: boolean;
  /** Whether the address is no page of the console: the browser loads it. */
  leaves?: boolean;
  children: ReactNode;
}

export function LinkButton({ href, tone = "plain", icon, small, download, leaves, children }: LinkButtonProps) {
  const className = `${styles.button} ${styles[tone]} ${small ? styles.small : ""}`;
  const inside = (
    <>
      {icon && <Icon name={icon} />}
      {children}
    </>
  );
  if (download || leaves) {
    return (
      <a href={href} download={download} className={className}>
        {inside}
      </a>
    );
  }
  return (
    <Link href={href} className={className}>
      {inside}
    </Link>
  );
}
