#include "forerun/cli/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <string_view>

namespace forerun::cli {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string utc_date() {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
}

std::string command_line(const CLI::App& command) {
  std::string out;
  for (const CLI::App* c = &command; c->get_parent() != nullptr; c = c->get_parent()) {
    out = " " + c->get_name() + out;
  }
  out = "forerun" + out;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const auto& names = option->get_lnames();
    const std::string name = names.empty() ? option->get_name() : "--" + names.front();
    const bool flag = option->get_items_expected_max() == 0;
    if (flag) out += " " + name;
    for (const std::string& value : option->results()) {
      if (!flag) out += " " + name + " " + quoted(value);
    }
  }
  return out;
}

}  // namespace forerun::cli
