/** Decorative icons; the text next to them has the same meaning. */

const PATHS = {
  overview: "M3 3h4v5H3zM9 3h4v3H9zM9 8h4v5H9zM3 10h4v3H3z",
  sessions: "M2.5 4h11M2.5 8h8M2.5 12h5M12 11.5h.01",
  session: "M2.5 4h11M4.5 8h7M7 12h5",
  compare: "M3 3h4v10H3zM9 3h4v10H9z",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3v10M10.5 3v10",
  forward: "M4 3.5l5.5 4.5L4 12.5zM12 3.5v9",
  back: "M12 3.5L6.5 8l5.5 4.5zM4 3.5v9",
  team: "M5.5 3a2 2 0 1 0 .01 0M2 12.5c.3-2.6 1.6-3.7 3.5-3.7s3.2 1.1 3.5 3.7M10.8 4.2a1.7 1.7 0 1 0 .01 0M11 9c1.7 0 2.8 1 3 3.2",
  usage: "M3 13V8M6.5 13V4M10 13V6.5M13.5 13V2.5",
  insights: "M8 2.5a4 4 0 0 1 2.4 7.2c-.5.4-.6.8-.6 1.3H6.2c0-.5-.1-.9-.6-1.3A4 4 0 0 1 8 2.5M6.6 13.5h2.8",
  runs: "M3 4.5a1.5 1.5 0 1 0 .01 0M13 4.5a1.5 1.5 0 1 0 .01 0M8 10a1.5 1.5 0 1 0 .01 0M4.5 6h7M4 7.2l3 3M12 7.2l-3 3",
  chat: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  guards: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z",
  cache: "M3 4.5C3 3.4 5.2 2.5 8 2.5s5 .9 5 2-2.2 2-5 2-5-.9-5-2zM3 4.5v7c0 1.1 2.2 2 5 2s5-.9 5-2v-7M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  files: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  exports: "M8 10V2.5M5 5l3-3 3 3M3 9.5V13.5h10V9.5",
  rules: "M8 2.5a3.5 3.5 0 0 1 3.5 3.5c0 3 1.5 3.8 1.5 4.8H3c0-1 1.5-1.8 1.5-4.8A3.5 3.5 0 0 1 8 2.5M6.6 13a1.5 1.5 0 0 0 2.8 0",
  settings: "M2.5 5h6M11.5 5h2M10 3.5v3M2.5 11h2M7.5 11h6M6 9.5v3",
  login: "M6 3h7v10H6M2.5 8h7M7 5.5L9.5 8 7 10.5",
  search: "M7 2.5a4.5 4.5 0 1 0 .01 0M10.3 10.3l3.2 3.2",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  hash: "M6.5 2.5l-1.5 11M11 2.5l-1.5 11M3 6h10.5M2.5 10H13",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5l3.5 3.5L13 4.5",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  sun: "M8 5.5a2.5 2.5 0 1 0 .01 0M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  system: "M2.5 3h11v7.5h-11zM6 13h4M8 10.5V13",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.01M6.7 6.5h.01M9.3 6.5h.01M12 6.5h.01M4.5 9.5h7",
  user: "M8 2.5a2.5 2.5 0 1 0 .01 0M3 13.5c.5-3 2.5-4 5-4s4.5 1 5 4",
  download: "M8 2.5V10M5 7l3 3 3-3M3 10v3.5h10V10",
  refresh: "M13 5.5A5.5 5.5 0 1 0 13.5 8M13.5 2.5v3h-3",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a3 3 0 0 1 4.3 4.3L11.5 8.5M9 11.5L7.5 13a3 3 0 0 1-4.3-4.3L4.5 7.5",
  out: "M6 3H3v10h10v-3M9 2.5h4.5V7M13.5 2.5L7.5 8.5",
  outline: "M2.5 3h11v10h-11zM10 3v10M11.6 5.5h.01M11.6 8h.01M11.6 10.5h.01",
  picture: "M2.5 3h11v10h-11zM2.5 11l3.5-3.5 2.5 2.5 2-2 3 3M6 6a.8.8 0 1 0 .01 0",
  warn: "M8 2.5l6 11H2zM8 6.5v3.5M8 12h.01",
  star: "M8 2l1.8 3.9 4.2.5-3.1 2.9.8 4.2L8 11.4l-3.7 2.1.8-4.2L2 6.4l4.2-.5z",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  stop: "M4 4h8v8H4z",
  send: "M2.5 8L13.5 3l-3 10-3-4z",
  clock: "M8 2a6 6 0 1 0 .01 0M8 4.5V8l2.5 1.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.4"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
