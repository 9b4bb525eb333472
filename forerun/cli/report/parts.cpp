#include <fmt/format.h>

#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {

std::string section(std::string_view id, std::string_view heading, std::string_view lead,
                    std::string_view body) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"lead\">{}</p>\n{}</section>\n",
                     id, escape(heading), escape(lead), body);
}

std::string folded(std::string_view summary, std::string_view table) {
  return fmt::format("<details><summary>{}</summary>\n<div class=\"scroll\">{}</div></details>\n",
                     escape(summary), table);
}

std::string legend(const std::vector<const Drafter*>& drafters) {
  std::string out = "<ul class=\"legend\">";
  for (const Drafter* d : drafters) {
    out += fmt::format("<li title=\"{}\">{}{}</li>", escape(d->name), key(d->series),
                       escape(d->shown));
  }
  return out + "</ul>\n";
}

}  // namespace forerun::cli::report
