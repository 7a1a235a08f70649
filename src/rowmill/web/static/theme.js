"use strict";

// Before the page is drawn: that there are scripts, and the theme that the person chose.
document.documentElement.classList.add("js");
const theme = localStorage.getItem("rowmill-theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
