/** The first module: theme and language before anything is painted, then the page. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import "./early";
import "./style/fonts.css";
import "./style/tokens.css";
import "./style/base.css";
import { App } from "./app";
import { loadChinese } from "./style/chinese";
import { applyLanguage } from "./text";
import { applyTheme, followSystem } from "./theme";

applyTheme();
applyLanguage();
followSystem();
loadChinese();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
