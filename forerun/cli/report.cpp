#include "forerun/cli/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"
#include "forerun/cli/report/style.h"
#include "forerun/cli/report/summary.h"

namespace forerun::cli {
namespace {

using namespace report;

std::string or_unknown(const std::string& text) { return text.empty() ? "n/a" : text; }

// A file is known by its name, a folder by its last part.
std::string base_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.find_last_of('/') + 1);
}

std::string fact(std::string_view name, std::string_view value, std::string_view style = "",
                 std::string_view full = "") {
  return fmt::format("<div{}{}><dt>{}</dt><dd>{}</dd></div>\n",
                     style.empty() ? "" : fmt::format(" class=\"{}\"", style),
                     full.empty() ? "" : fmt::format(" title=\"{}\"", escape(full)), escape(name),
                     escape(value));
}

std::string facts(const Report& r) {
  const Drafter* plain = r.baseline();
  std::string threads = count(r.threads);
  if (r.threads && *r.threads == 0.0) threads = "one a core";
  std::string prompts = count(r.prompts);
  if (r.interrupted()) prompts += " of " + count(r.prompts_total);
  return "<dl>\n" + fact("model", or_unknown(base_name(r.model)), "wide", r.model) +
         fact("CPU", or_unknown(r.cpu), "wide") + fact("threads", threads) +
         fact("precision", or_unknown(r.precision)) + fact("rule", or_unknown(r.rule)) +
         fact("temperature", r.temperature ? fmt::format("{:g}", *r.temperature) : "n/a") +
         fact("seed", r.seed ? fmt::format("{:.0f}", *r.seed) : "n/a") + fact("prompts", prompts) +
         fact("tokens each", count(plain ? plain->speed.outputs : std::nullopt)) +
         fact("forerun", or_unknown(r.version)) + "</dl>\n";
}

std::string header(const Report& r) {
  const std::string date = r.date.empty() ? "date n/a" : r.date;
  std::string out =
      fmt::format("<header>\n<p class=\"over\">forerun bench · {}</p>\n<h1>{}</h1>\n{}",
                  escape(date), escape(headline(r)), verdict(r));
  if (r.interrupted()) {
    out += fmt::format(
        "<p class=\"verdict warn\"><b>Interrupted after {} of {} prompts.</b> The numbers are of "
        "those "
        "that ran.</p>\n",
        count(r.prompts), count(r.prompts_total));
  }
  out += facts(r) + summary_table(r) + differences(r);
  if (!r.command.empty()) {
    out += fmt::format("<h3>The command that reproduces it</h3>\n<pre><code>{}</code></pre>\n",
                       escape(r.command));
  }
  return out + "</header>\n";
}

}  // namespace

std::string render_report(const nlohmann::json& document) {
  const Report r = read_document(document);
  // The policy makes a browser enforce what the page promises: nothing is fetched, nothing runs.
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src "
         "data:; "
         "style-src 'unsafe-inline'\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<link rel=\"icon\" href=\"data:,\"/>\n<title>" +
         escape("forerun bench: " + headline(r)) + "</title>\n<style>" + std::string(kStyle) +
         "</style>\n</head>\n<body>\n" + marker_shapes() + header(r) + "<main>\n" + speed_chart(r) +
         acceptance_chart(r) + cost_chart(r) + round_chart(r) + lengths_chart(r) +
         "</main>\n<footer>Written by forerun " + escape(or_unknown(r.version)) +
         ". tau = tokens / passes; acceptance = kept / examined; a ratio compares runs that took "
         "turns "
         "on every prompt.</footer>\n</body>\n</html>\n";
}

}  // namespace forerun::cli
