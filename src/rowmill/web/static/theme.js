"use strict";

// Before the page is drawn: the theme that the person chose.
const theme = localStorage.getItem("rowmill-theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
