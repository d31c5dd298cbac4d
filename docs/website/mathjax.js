MathJax.Hub.Config({
  messageStyle: "none",
  showMathMenu: false,
  SVG: {scale: 95, font: "TeX", linebreaks: {automatic: true, width: "container"}},
});
