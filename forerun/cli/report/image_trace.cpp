#include "forerun/cli/report/image_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "forerun/cli/report/markup.h"
#include "forerun/cli/report/style.h"

namespace forerun::cli {
namespace {

using namespace report;

constexpr std::string_view kTraceStyle = R"css(
.kept { fill: var(--s3); } .reflected { fill: var(--s2); } .own { fill: var(--s1); } .cut { stroke: var(--ink); }
.predictions { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; } figure { margin: 0; }
figure img { width: 104px; image-rendering: pixelated; display: block; border: 1px solid var(--line); }
figcaption { font-size: .8125rem; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 22px; font-size: .875rem; margin: 8px 0 14px; }
.legend span { display: inline-flex; align-items: center; gap: 7px; }
)css";

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) -> std::uint32_t {
      return i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U;
    };
    const std::uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kLetters[word >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

// One row of the timeline for so many steps.
constexpr std::uint32_t kColumns = 100;
constexpr double kCell = 8.9, kRow = 26.0, kLeft = 44.0;

struct Place {
  double x, y;
  explicit Place(std::uint32_t step)
      : x(kLeft + kCell * (step % kColumns)), y(kRow * (step / kColumns)) {}
};

std::string cell(std::uint32_t step, const char* kind) {
  const Place at(step);
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\"/>\n", kind,
      at.x + 0.5, at.y + 3.0, kCell - 1.0);
}

std::string timeline(const ImageTracePage& page) {
  const std::uint32_t rows = (page.steps + kColumns - 1) / kColumns;
  std::string out = fmt::format(
      "<div class=\"scroll\"><svg width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\" "
      "aria-label=\"Every step of the image\">\n",
      kLeft + kCell * std::min(kColumns, page.steps) + 2.0, kRow * rows);
  for (std::uint32_t row = 0; row < rows; ++row) {
    out += fmt::format(
        "<text class=\"tick\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n",
        kLeft - 8.0, kRow * row + 15.0, row * kColumns);
  }
  for (const ImageTracePage::Round& r : page.rounds) {
    for (std::uint32_t i = 0; i < r.emitted && r.first + i < page.steps; ++i) {
      const bool own = i < r.given || (i == r.given + r.kept && r.kept == r.drafted);
      out += cell(r.first + i, own ? "own" : i < r.given + r.kept ? "kept" : "reflected");
    }
    const Place at(r.first);
    out += fmt::format(
        "<line class=\"cut\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", at.x,
        at.y + 1.0, at.y + 21.0);
  }
  return out + "</svg></div>\n";
}

std::string legend() {
  const auto entry = [](const char* kind, const char* text) {
    return fmt::format(
        "<span><svg width=\"14\" height=\"14\"><rect class=\"{}\" width=\"14\" "
        "height=\"14\"/></svg>{}"
        "</span>\n",
        kind, text);
  };
  return "<div class=\"legend\">\n" + entry("kept", "a draft that was kept") +
         entry("reflected", "a draft that was reflected") + entry("own", "drawn from the target") +
         "<span>a stroke: a pass of the target</span>\n</div>\n";
}

std::string predictions(const ImageTracePage& page) {
  if (page.predictions.empty()) return "";
  std::string out =
      "<section id=\"predictions\">\n<h2>What the target predicted</h2>\n<div "
      "class=\"predictions\">\n";
  for (const ImageTracePage::Prediction& s : page.predictions) {
    out += fmt::format(
        "<figure><img alt=\"after {0} steps\" src=\"data:image/png;base64,{1}\"/>"
        "<figcaption>{0} steps</figcaption></figure>\n",
        s.step, base64(s.png));
  }
  return out + "</div>\n</section>\n";
}

}  // namespace

std::string render_image_trace(const ImageTracePage& page) {
  std::string facts = "<dl>\n";
  for (const auto& [name, value] : page.facts) {
    facts += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
  }
  const std::string command =
      page.command.empty()
          ? ""
          : fmt::format("<h3>The command</h3>\n<pre><code>{}</code></pre>\n", escape(page.command));
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src "
         "data:; style-src 'unsafe-inline'\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<link rel=\"icon\" href=\"data:,\"/>\n<title>" +
         escape(page.title) + "</title>\n<style>" + std::string(kStyle) + std::string(kTraceStyle) +
         "</style>\n</head>\n<body>\n<header>\n<p class=\"over\">forerun generate</p>\n<h1>" +
         escape(page.title) + "</h1>\n" + facts + "</dl>\n" + command +
         "</header>\n<main>\n<section id=\"steps\">\n<h2>Every step</h2>\n" + legend() +
         timeline(page) + "</section>\n" + predictions(page) +
         "</main>\n<footer>Written by forerun" +
         escape(page.version.empty() ? "" : " " + page.version) +
         ". A draft that is reflected has the target's law, as one that is "
         "kept.</footer>\n</body>\n"
         "</html>\n";
}

}  // namespace forerun::cli
