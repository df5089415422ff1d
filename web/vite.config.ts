import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import type { Plugin } from "vitest/config";

import { brotli } from "./compression.ts";
import { fonts } from "./fonts.ts";

/**
 * The page is empty until its first module has chosen theme and language, so nothing is painted before that: no flash
 * of the wrong theme, and no inline script, which the server's Content-Security-Policy would refuse.
 */
function paintAfterEntry(): Plugin {
  return {
    name: "paint-after-entry",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (html) => html.replace('<script type="module"', '<script type="module" blocking="render"'),
    },
  };
}

/** The licences of everything that is part of the page; the settings page links to it. */
const NOTICES = "third-party-notices.txt";

export default defineConfig({
  base: "/",
  plugins: [react(), paintAfterEntry(), fonts(NOTICES), brotli()],
  server: { host: "127.0.0.1", proxy: { "/api": { target: "http://127.0.0.1:8317", changeOrigin: false } } },
  build: {
    outDir: "../src/agenttrace/console/dist",
    emptyOutDir: true,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    sourcemap: false,
    license: { fileName: NOTICES },
    modulePreload: { polyfill: false },
    target: "es2023",
    // ECharts is one lazy chunk of about this size; everything else is far below.
    chunkSizeWarningLimit: 650,
  },
  test: { include: ["src/**/*.test.ts"], environment: "node", css: { include: [/\.css/] } },
});
