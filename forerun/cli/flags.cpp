#include "forerun/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "forerun/cli/flag_hints.h"
#include "forerun/cli/terminal.h"
#include "forerun/common.h"

namespace forerun::cli {
namespace {

constexpr int kMisuse = 2;
constexpr std::size_t kColumn = 30, kWidth = 110, kMisuseWidth = 400;

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;

std::string words_of(const Accepts& a) {
  const bool least = a.least > -std::numeric_limits<double>::infinity();
  const bool most = a.most < std::numeric_limits<double>::infinity();
  if (!a.one_of.empty()) return fmt::format("{}", fmt::join(a.one_of, ", "));
  if (least && most) return fmt::format("{} to {}", a.least, a.most);
  if (most) return fmt::format("at most {}", a.most);
  return least ? fmt::format("{} or more", a.least) : "";
}

[[noreturn]] void refuse(const std::string& name, const std::string& text, const std::string& kind,
                         const Accepts& a) {
  const std::string words = words_of(a);
  throw CLI::ValidationError(
      name, fmt::format("'{}' is {}{}{}", text, kind, words.empty() ? "" : "; expected ", words));
}

template <class T>
T read(const std::string& name, const std::string& text, const Accepts& a) {
  if constexpr (std::is_same_v<T, std::string>) {
    const bool known = a.one_of.empty() || std::ranges::find(a.one_of, text) != a.one_of.end();
    if (!known) refuse(name, text, "not known", a);
    if (text.empty() && (a.required || !a.shows.empty())) refuse(name, text, "no name", a);
    return text;
  } else {
    T out{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    if (error == std::errc::result_out_of_range) refuse(name, text, "too large", a);
    if (error != std::errc() || stop != end) {
      refuse(name, text, std::is_integral_v<T> ? "no whole number" : "no number", a);
    }
    const auto number = static_cast<double>(out);
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    const bool inside = number >= a.least && number <= a.most && number <= largest;
    if (!inside || number < -largest - 1.0) refuse(name, text, "out of range", a);
    return out;
  }
}

template <class T>
std::string type_of() {
  if constexpr (kIsList<T>) return type_of<typename T::value_type>() + " ...";
  if constexpr (std::is_same_v<T, std::string>) return "TEXT";
  return std::is_same_v<T, double> ? "X" : "N";
}

template <class T>
std::string default_of(const T& value) {
  if constexpr (kIsList<T>) {
    return fmt::format("{}", fmt::join(value, ","));
  } else if constexpr (std::is_same_v<T, std::optional<std::uint32_t>>) {
    return value ? fmt::format("{}", *value) : "";
  } else {
    return fmt::format("{}", value);
  }
}

std::string described_flag(const std::string& help, const Accepts& a, const std::string& standard) {
  std::string words = words_of(a);
  if (!standard.empty()) words += (words.empty() ? "" : "; ") + ("default " + standard);
  if (a.required) words += words.empty() ? "required" : "; required";
  return words.empty() ? help : fmt::format("{} ({})", help, words);
}

std::vector<std::string> split(const std::string& list) {
  return list.empty() ? std::vector<std::string>() : CLI::detail::split(list, ',');
}

// Names and a description that is wrapped beside them.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string left = "  " + option->get_name(positional, !positional);
    if (option->get_type_size() != 0) left += " " + option->get_type_name();
    std::string out = left, rest = option->get_description();
    std::size_t at = left.size() + 2 > kColumn ? kWidth : left.size();
    std::istringstream words(rest);
    for (std::string word; words >> word;) {
      if (at + 1 + word.size() > kWidth) {
        out += "\n";
        at = 0;
      }
      const std::size_t gap = at < kColumn ? kColumn - at : 1;
      out += std::string(gap, ' ') + word;
      at += gap + word.size();
    }
    return out + "\n";
  }
};

std::string quoted(const std::string& word) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string long_name(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return names.empty() ? option.get_name() : "--" + names.front();
}

}  // namespace

struct Command::Impl {
  struct Flag {
    CLI::Option* option;
    std::vector<CLI::Option*> old;
    std::string group;

    std::vector<CLI::Option*> all() const {
      std::vector<CLI::Option*> out = old;
      out.push_back(option);
      return out;
    }
    bool given() const {
      return option->count() > 0 ||
             std::ranges::any_of(old, [](auto* o) { return o->count() > 0; });
    }
  };

  std::unique_ptr<CLI::App> owned;  // the program's
  CLI::App* app = nullptr;
  std::string group;
  std::vector<Flag> flags;
  std::vector<std::unique_ptr<Command>> commands;
  Action action;

  std::string path() const {
    std::string out = app->get_name();
    for (const CLI::App* c = app->get_parent(); c != nullptr; c = c->get_parent()) {
      out = c->get_name() + " " + out;
    }
    return out;
  }
  CLI::Option* add(const std::string& names, const CLI::callback_t& set, bool flag) const {
    if (!flag) return app->add_option(names, set);
    return app->add_flag_function(names, [set](std::int64_t n) {
      if (n > 0) set({});
    });
  }
  // All flags.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Flag& flag : flags) {
      for (const std::string& name : flag.option->get_lnames()) out.push_back("--" + name);
      for (const std::string& name : flag.option->get_snames()) out.push_back("-" + name);
      for (const CLI::Option* old : flag.old) out.push_back("--" + old->get_lnames().front());
    }
    return out;
  }
  // Whether a word is a flag that takes the next word.
  bool takes_value(const std::string& word) const {
    return std::ranges::any_of(flags, [&](const Flag& flag) {
      return std::ranges::any_of(flag.all(), [&](const CLI::Option* o) {
        return o->get_items_expected_max() > 0 && o->check_name(word);
      });
    });
  }
  // The first word that is another program's flag of several letters; none: the last.
  auto foreign_flag(const std::vector<std::string>& words) const {
    auto at = words.begin();
    for (; at != words.end() && *at != "--"; ++at) {
      if (is_foreign_short_flag(*at) && (at == words.begin() || !takes_value(*(at - 1)))) return at;
    }
    return words.end();
  }
  // What is known of words that were not expected, to follow them.
  std::string hints(const std::vector<std::string>& words) const {
    std::string out;
    for (const std::string& word : words) {
      const std::string hint = flag_hint(word, names());
      if (!hint.empty()) out += "; " + hint;
    }
    if (words.empty() || words.front().starts_with('-')) return out;
    const std::vector<std::string> all = names();
    const bool takes = std::ranges::find(all, "-m") != all.end();
    return out + (takes ? "; a model is named by -m, and a prompt, where there is one, by -p" : "");
  }
  // The innermost command that words name, before they are parsed.
  const Impl& named_in(const std::vector<std::string>& words) const {
    const Impl* at = this;
    for (const std::string& word : words) {
      const auto found = std::ranges::find_if(
          at->commands, [&](const auto& c) { return c->impl_->app->get_name() == word; });
      if (found == at->commands.end()) break;
      at = (*found)->impl_.get();
    }
    return *at;
  }
  // The innermost command that the arguments name.
  const Impl& named() const {
    for (const auto& c : commands) {
      if (c->impl_->app->parsed()) return c->impl_->named();
    }
    return *this;
  }
};

Command::Command(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Command::~Command() = default;

Command::Command(std::string description, std::string version) : impl_(std::make_unique<Impl>()) {
  impl_->owned = std::make_unique<CLI::App>(std::move(description), "forerun");
  impl_->app = impl_->owned.get();
  impl_->app->set_version_flag("--version", "forerun " + version);
  impl_->app->formatter(std::make_shared<Help>());
}

Command& Command::add_command(const std::string& name, const std::string& description) {
  auto impl = std::make_unique<Impl>();
  impl->app = impl_->app->add_subcommand(name, description);
  impl->app->allow_extras(false);
  impl_->app->require_subcommand(0, 1);  // "--log-level info" of serve is no info command
  impl_->app->allow_extras();  // so that a word that is no command is refused with those there are
  impl_->commands.push_back(std::unique_ptr<Command>(new Command(std::move(impl))));
  return *impl_->commands.back();
}

void Command::group(const std::string& title) { impl_->group = title; }
void Command::footer(const std::string& text) { impl_->app->footer(text); }
void Command::runs(Action action) { impl_->action = std::move(action); }

template <class T>
void Command::add(const std::string& names, T& value, const std::string& help, const Accepts& a) {
  const std::string name = names.substr(names.rfind(',') + 1);
  constexpr bool kFlag = std::is_same_v<T, bool>;
  // A list given under two of its names is one list.
  const CLI::callback_t set = [&value, name, a,
                               fresh = std::make_shared<bool>(true)](const CLI::results_t& texts) {
    if constexpr (kFlag) {
      value = !value;
    } else if constexpr (kIsList<T>) {
      if (std::exchange(*fresh, false)) value.clear();
      for (const std::string& t : texts) {
        value.push_back(read<typename T::value_type>(name, t, a));
      }
    } else if constexpr (std::is_same_v<T, std::optional<std::uint32_t>>) {
      value = read<std::uint32_t>(name, texts.front(), a);
    } else {
      value = read<T>(name, texts.front(), a);
      if constexpr (std::is_same_v<T, std::string>) {
        if (a.means) value = a.means(value);
      }
    }
    return true;
  };
  Impl::Flag flag{.option = impl_->add(names, set, kFlag), .old = {}, .group = impl_->group};
  flag.option->description(described_flag(help, a,
                                          kFlag                ? ""
                                          : a.standard.empty() ? default_of(value)
                                                               : a.standard));
  for (const std::string& old : split(a.old)) {
    flag.old.push_back(impl_->add(old, set, kFlag)->group(""));
  }
  if (!impl_->group.empty()) flag.option->group(impl_->group);
  if (a.required) flag.option->required();
  if (!a.excludes.empty()) flag.option->excludes(impl_->app->get_option(a.excludes));
  if constexpr (!kFlag) flag.option->type_name(a.shows.empty() ? type_of<T>() : a.shows);
  if constexpr (kIsList<T>) {
    for (CLI::Option* option : flag.all()) {
      option->expected(1, -1)->allow_extra_args();
      if (a.commas) option->delimiter(',');
    }
  }
  impl_->flags.push_back(std::move(flag));
}

template void Command::add(const std::string&, std::string&, const std::string&, const Accepts&);
template void Command::add(const std::string&, bool&, const std::string&, const Accepts&);
template void Command::add(const std::string&, double&, const std::string&, const Accepts&);
template void Command::add(const std::string&, int&, const std::string&, const Accepts&);
template void Command::add(const std::string&, std::int64_t&, const std::string&, const Accepts&);
template void Command::add(const std::string&, std::uint32_t&, const std::string&, const Accepts&);
template void Command::add(const std::string&, std::uint64_t&, const std::string&, const Accepts&);
template void Command::add(const std::string&, std::optional<std::uint32_t>&, const std::string&,
                           const Accepts&);
template void Command::add(const std::string&, std::vector<std::string>&, const std::string&,
                           const Accepts&);
template void Command::add(const std::string&, std::vector<std::int64_t>&, const std::string&,
                           const Accepts&);

void Command::add_old(const std::string& names, std::function<void(const std::string&)> use) {
  CLI::Option* option = impl_->app->add_option(names, [use](const CLI::results_t& texts) {
    use(texts.front());
    return true;
  });
  impl_->flags.push_back({.option = option->group(""), .old = {}, .group = impl_->group});
}

bool Command::given(std::string_view name) const {
  const std::string text(name);
  return std::ranges::any_of(
      impl_->flags, [&](const Impl::Flag& f) { return f.option->check_name(text) && f.given(); });
}

std::string Command::given_under(std::string_view title) const {
  for (const Impl::Flag& f : impl_->flags) {
    if (f.group == title && f.given()) return long_name(*f.option);
  }
  return "";
}

std::string Command::line() const {
  std::string out = impl_->path();
  for (const CLI::Option* option : impl_->app->get_options()) {
    if (option->count() == 0) continue;
    const bool flag = option->get_items_expected_max() == 0;
    const std::string name = long_name(*option);
    if (flag) out += " " + name;
    for (const std::string& value : option->results()) {
      if (!flag) out += " " + name + " " + quoted(value);
    }
  }
  return out;
}

Action Command::parse(int argc, const char* const* argv) {
  const auto misuse_at = [](const Impl& at, const std::string& what) -> Action {
    const std::string path = at.path();
    return [line = fmt::format("{0}: {1} ({0} --help explains)", path,
                               printable(what, kMisuseWidth))] {
      note(line);
      return kMisuse;
    };
  };
  const auto misuse = [&](const std::string& what) { return misuse_at(impl_->named(), what); };
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {  // "help COMMAND", as git has it
    words.erase(words.begin());
    if (words.empty() || &impl_->named_in(words) != impl_.get()) words.emplace_back("--help");
  }
  const Impl& command = impl_->named_in(words);
  if (const auto at = command.foreign_flag(words); at != words.end()) {
    return misuse_at(command, fmt::format("not expected: {}{}", *at, command.hints({*at})));
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    impl_->app->parse(std::move(words));
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> left = impl_->named().app->remaining(true);
    return misuse(
        fmt::format("not expected: {}{}", fmt::join(left, " "), impl_->named().hints(left)));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return misuse(e.what());
    return [code = impl_->app->exit(e)] { return code; };
  } catch (const UsageError& e) {
    return misuse(e.what());
  }
  const Impl& at = impl_->named();
  if (at.commands.empty()) return at.action;
  std::vector<std::string> names;
  for (const auto& c : at.commands) names.push_back(c->impl_->app->get_name());
  const auto unknown = at.app->remaining();
  return misuse(fmt::format(
      "{}; there are {}",
      unknown.empty() ? "a command is missing" : fmt::format("'{}' is no command", unknown.front()),
      fmt::join(names, ", ")));
}

}  // namespace forerun::cli
