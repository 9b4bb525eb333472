#include "forerun/cli/report/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/curves.h"
#include "forerun/cli/report/markup.h"
#include "forerun/cli/report/style.h"
#include "forerun/cli/report/training_log.h"

namespace forerun::cli {
namespace {

using namespace report;

constexpr int kTrained = 1, kHeldOut = 2;  // colour and shape

// Beside kStyle. Well-formed XML: no "<" and no "&" here.
constexpr std::string_view kTrainingStyle = R"css(
.band { fill: var(--c); stroke: var(--c); stroke-width: 1; fill-opacity: .18; stroke-opacity: .3;
  vector-effect: non-scaling-stroke; }
.event { stroke: var(--soft); stroke-dasharray: 2 4; }
.small .plot { padding: 0 10px 26px 52px; } .small .curve { stroke-width: 1.75; }
.small .unit:empty { display: none; } .small figcaption { margin-bottom: 12px; }
.plot { padding-bottom: 30px; }
#run .smalls { grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); }
)css";

std::string rounded(Number value) { return value ? short_number(*value) : "n/a"; }

std::string duration(Number seconds) {
  if (!seconds) return "n/a";
  const double s = *seconds;
  if (s < 90.0) return fmt::format("{:.0f} s", s);
  if (s < 5400.0) return fmt::format("{:.0f} min", s / 60.0);
  return fmt::format("{:.1f} h", s / 3600.0);
}

Axis steps_axis(const TrainingLog& log, int wanted) {
  Axis axis = linear_axis(std::max(log.last_step(), 1.0), wanted);
  axis.high = std::max(log.last_step(), 1.0);  // the curve shall fill its chart
  std::erase_if(axis.ticks, [&](double tick) { return tick > 1.02 * axis.high; });
  return axis;
}

struct Range {
  double low = 1e300, high = -1e300;
  void add(const Samples& samples) {
    for (const Sample& s : samples) {
      low = std::min(low, s.value);
      high = std::max(high, s.value);
    }
  }
  bool empty() const { return low > high; }
};

std::string keys(const TrainingLog::Curves& curves, std::string_view trained) {
  std::string out = "<ul class=\"legend\">";
  if (!curves.trained.empty()) {
    out += fmt::format("<li>{}{}</li>", key(kTrained), escape(trained));
  }
  if (!curves.held_out.empty()) out += fmt::format("<li>{}held out</li>", key(kHeldOut));
  return out + "</ul>\n";
}

std::string held_out_table(const TrainingLog& log) {
  std::string out = "<table><thead><tr><th class=\"name\">after step</th><th>held-out loss</th>";
  for (const auto& f : log.figures) {
    if (!f.held_out.empty()) out += fmt::format("<th>{}</th>", escape(f.name));
  }
  out += "</tr></thead><tbody>\n";
  for (const Sample& s : log.loss.held_out) {
    out += fmt::format("<tr><th scope=\"row\" class=\"count\">{}</th><td>{:.4f}</td>",
                       count(s.step), s.value);
    for (const auto& f : log.figures) {
      if (f.held_out.empty()) continue;
      const auto it = std::find_if(f.held_out.begin(), f.held_out.end(),
                                   [&](const Sample& x) { return x.step == s.step; });
      out += fmt::format("<td>{}</td>",
                         it == f.held_out.end() ? "n/a" : fmt::format("{:.4g}", it->value));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string loss_section(const TrainingLog& log) {
  Range range;
  range.add(log.loss.trained);
  range.add(log.loss.held_out);
  std::string body = "<p class=\"empty\">n/a: no step was logged yet.</p>\n";
  if (!range.empty()) {
    CurveChart chart;
    chart.unit = "loss";
    chart.spoken = "Loss by step, in training and on held-out examples";
    chart.steps = steps_axis(log, 8);
    chart.values = range.low > 0.0 ? falling_axis(0.97 * range.low, 1.03 * range.high)
                                   : linear_axis(range.high, 6);
    chart.curves = {{log.loss.trained, kTrained, false, true, ""},
                    {log.smoothed, kTrained, false, false, ""},
                    {log.loss.held_out, kHeldOut, true, false, "held-out loss"}};
    chart.events = log.resumed;
    body = keys(log.loss, "training, smoothed; the band is the spread of single steps") +
           curve_chart(chart);
    if (!log.loss.held_out.empty()) body += folded("Held-out losses", held_out_table(log));
  }
  std::string lead = "By step. The axis is logarithmic where the loss is positive.";
  if (!log.resumed.empty()) lead += " Dotted lines: there the run was resumed.";
  return section("loss", "Loss", lead, body);
}

std::string small(const TrainingLog& log, std::string_view name, const TrainingLog::Curves& curves,
                  bool logarithmic) {
  Range range;
  range.add(curves.trained);
  range.add(curves.held_out);
  if (range.empty()) return "";
  CurveChart chart;
  chart.spoken = fmt::format("{} by step", name);
  chart.steps = steps_axis(log, 3);
  chart.values = logarithmic && range.low > 0.0 ? falling_axis(0.9 * range.low, 1.1 * range.high)
                                                : linear_axis(range.high, 4);
  chart.height = 130;
  // What does not scatter is drawn as it is.
  const bool smooth = name == "learning rate";
  chart.curves = {
      {smooth ? Samples() : curves.trained, kTrained, false, true, ""},
      {smooth ? curves.trained : thinned(curves.trained, 60), kTrained, false, false, ""},
      {curves.held_out, kHeldOut, true, false, fmt::format("{}, held out", name)}};
  const Samples& latest = curves.held_out.empty() ? curves.trained : curves.held_out;
  return fmt::format(
      "<figure class=\"small\"><figcaption title=\"{0}\"><span>{0}</span><small>{1} "
      "{2}</small></figcaption>{3}"
      "</figure>\n",
      escape(name), curves.held_out.empty() ? "last" : "held out",
      escape(short_number(latest.back().value)), curve_chart(chart));
}

std::string figures_section(const TrainingLog& log) {
  std::string charts;
  TrainingLog::Curves any;
  for (const auto& f : log.figures) {
    charts += small(log, f.name, f, false);
    if (!f.trained.empty()) any.trained = f.trained;
    if (!f.held_out.empty()) any.held_out = f.held_out;
  }
  if (charts.empty()) return "";
  return section(
      "figures", "Figures",
      "What the method reports beside its loss: ratios of sums over what a step supervised.",
      keys(any, "training") + "<div class=\"smalls\">" + charts + "</div>\n");
}

std::string run_section(const TrainingLog& log) {
  const std::string charts =
      small(log, "learning rate", {"", log.rate, {}}, false) +
      small(log, "gradient norm", {"", log.norm, {}}, true) +
      small(log, "tokens a second", {"", log.tokens_per_second, {}}, false) +
      small(log, "GFLOP/s of matrix products", {"", log.gflops_per_second, {}}, false);
  if (charts.empty()) return "";
  std::string lead = "Lines are means of neighbouring steps, bands their spread.";
  if (log.clip && *log.clip > 0.0) {
    lead += fmt::format(" The gradient norm is the one before clipping to {}.",
                        short_number(*log.clip));
  }
  return section("run", "The run", lead, "<div class=\"smalls\">" + charts + "</div>\n");
}

std::string headline(const TrainingLog& log) {
  if (log.loss.trained.empty()) return "No step was logged yet";
  const Samples& held = log.loss.held_out;
  const std::string where =
      log.steps && *log.steps > log.last_step()
          ? fmt::format("{} of {} steps", count(log.last_step()), count(log.steps))
          : fmt::format("{} steps", count(log.last_step()));
  return held.empty() ? fmt::format("Loss {:.3f} after {}",
                                    log.smoothed.empty() ? log.loss.trained.back().value
                                                         : log.smoothed.back().value,
                                    where)
                      : fmt::format("Held-out loss {:.3f} after {}", held.back().value, where);
}

std::string fact(std::string_view name, std::string_view value, bool wide = false) {
  return fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n", wide ? " class=\"wide\"" : "",
                     escape(name), escape(value));
}

std::string header(const TrainingLog& log) {
  const Number smoothed = log.smoothed.empty() ? std::nullopt : Number(log.smoothed.back().value);
  std::string out = fmt::format(
      "<header>\n<p class=\"over\">forerun train</p>\n<h1>{}</h1>\n<dl>\n", escape(headline(log)));
  out += fact("training loss, smoothed", fixed(smoothed, 4), true) +
         fact("tokens", count(log.tokens)) + fact("epochs", fixed(log.epoch, 2)) +
         fact("time", duration(log.seconds)) + fact("batch", count(log.batch)) +
         fact("tokens a second, median", rounded(median(log.tokens_per_second)), true) +
         fact("GFLOP/s, median", rounded(median(log.gflops_per_second)), true) +
         fact("ranks × threads", count(log.ranks) + " × " + count(log.threads), true) + "</dl>\n";
  if (!log.objective.empty()) {
    out += fmt::format("<h3>What was trained</h3>\n<p>{}</p>\n", escape(log.objective));
  }
  if (!log.command.empty()) {
    out += fmt::format("<h3>The command</h3>\n<pre><code>{}</code></pre>\n", escape(log.command));
  }
  return out + "</header>\n";
}

std::string options_section(const TrainingLog& log) {
  if (log.options.empty()) return "";
  std::string table = "<table><tbody>\n";
  for (const auto& [name, value] : log.options) {
    table += fmt::format("<tr><th scope=\"row\" class=\"name\">{}</th><td>{}</td></tr>\n",
                         escape(name), escape(value));
  }
  std::string body = folded("Options of the run", table + "</tbody></table>\n");
  if (!log.provenance.empty()) {
    body += folded("Where it comes from",
                   fmt::format("<pre><code>{}</code></pre>\n", escape(log.provenance)));
  }
  return "<section id=\"options\">\n" + body + "</section>\n";
}

}  // namespace

std::string render_training(std::string_view text) {
  const TrainingLog log = read_training_log(text);
  // The policy makes a browser enforce what the page promises: nothing is fetched, nothing runs.
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src "
         "data:; style-src 'unsafe-inline'\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<link rel=\"icon\" href=\"data:,\"/>\n<title>" +
         escape("forerun train: " + headline(log)) + "</title>\n<style>" + std::string(kStyle) +
         std::string(kTrainingStyle) + "</style>\n</head>\n<body>\n" + marker_shapes() +
         header(log) + "<main>\n" + loss_section(log) + figures_section(log) + run_section(log) +
         options_section(log) + "</main>\n<footer>Written by forerun" +
         escape(log.version.empty() ? "" : fmt::format(" {}", log.version)) +
         ". The loss of a step is the sum of its losses over the sum of their weights; the "
         "held-out "
         "loss is of examples that are never trained on.</footer>\n</body>\n</html>\n";
}

}  // namespace forerun::cli
