/** Files of the page as Brotli beside them: a seventh smaller than what the server could compress itself. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

import type { Plugin } from "vite";

const WORTH = /\.(js|css|svg)$/;

export function brotli(): Plugin {
  let directory = "";
  return {
    name: "brotli",
    apply: "build",
    configResolved: (config) => {
      directory = join(config.root, config.build.outDir, config.build.assetsDir);
    },
    closeBundle: () => {
      for (const name of readdirSync(directory).filter((each) => WORTH.test(each))) {
        const body = readFileSync(join(directory, name));
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: body.length };
        writeFileSync(join(directory, `${name}.br`), brotliCompressSync(body, { params }));
      }
    },
  };
}
