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

/** Runs before the application is loaded, so it is a file of its own, with what it imports. */
const EARLY = /\/src\/(early|api\/early|pages\/code|pages\/overview\/questions)\.ts$|preload-helper/;

function early(): Plugin {
  return {
    name: "early",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (_html, { bundle }) => {
        const chunk = Object.values(bundle ?? {}).find((each) => each.type === "chunk" && each.name === "early");
        if (!chunk) throw new Error("early.ts is not a file of its own");
        const attrs = { type: "module", async: true, crossorigin: true, src: `/${chunk.fileName}` };
        return [{ tag: "script", attrs, injectTo: "head" as const }];
      },
    },
  };
}

/** The licences of everything that is part of the page; the settings page links to it. */
const NOTICES = "third-party-notices.txt";

/** Pages that use a module of the shared file. */
const SHARED = 5;

export default defineConfig({
  base: "/",
  plugins: [react(), paintAfterEntry(), early(), fonts(NOTICES), brotli()],
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
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "early", test: EARLY, priority: 2 },
            // A request costs more than a few kilobytes: what many pages use is one file.
            { name: "shared", test: /\/src\/|\/node_modules\/(react|@tanstack|wouter|scheduler|use-sync)/, minShareCount: SHARED, priority: 1 },
          ],
        },
      },
    },
    // ECharts is one lazy chunk of about this size; everything else is far below.
    chunkSizeWarningLimit: 650,
  },
  test: { include: ["src/**/*.test.ts"], environment: "node", css: { include: [/\.css/] } },
});
