#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::cli {

using Action = std::function<int()>;

/// What a flag accepts, and how its help shows it.
struct Accepts {
  bool required = false;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::vector<std::string> one_of;  ///< of a text
  bool commas = false;              ///< a list may be given as a,b,c
  std::string excludes = "";        ///< a flag added before that cannot be given beside this one
  std::string old = "";  ///< former names, and other programs', comma-separated; they work and are
                         ///< not shown
  std::string shows = "";     ///< what stands for the value: "FILE"; "" = by its type
  std::string standard = "";  ///< the default in words; "" = the value's content
  /// What a text that was given stands for; none: itself. @throws UsageError
  std::function<std::string(const std::string&)> means = nullptr;
};

/// A command: its flags, its subcommands and what it runs. The library that parses arguments is
/// hidden behind it, so that one file is compiled with it.
class Command {
 public:
  /// The program itself.
  Command(std::string description, std::string version);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// A subcommand, which lives as long as this one.
  Command& add_command(const std::string& name, const std::string& description);
  /// Flags added from here on stand under this title.
  void group(const std::string& title);
  /// A flag that sets `value`, whose present content the help shows as the default; a bool has no
  /// value and is turned from its default. `names` as "-o,--out"; without dashes: a place.
  /// T: std::string, bool, double, int, std::int64_t, std::uint32_t, std::uint64_t,
  /// std::optional<std::uint32_t>, std::vector of std::string and std::int64_t.
  template <class T>
  void add(const std::string& names, T& value, const std::string& help,
           const Accepts& accepts = {});
  /// A flag of a former version, which is not shown: `use` is called with its value.
  /// @param use  throws UsageError where the value is wrong
  void add_old(const std::string& names, std::function<void(const std::string&)> use);
  /// What the help ends with.
  void footer(const std::string& text);
  void runs(Action action);

  /// True if the flag, or a former name of it, was given.
  bool given(std::string_view name) const;
  /// The first flag under a title that was given; "" if none was.
  std::string given_under(std::string_view title) const;
  /// The flags that were given, as a command for a shell.
  std::string line() const;

  /// What the arguments ask for. Help and misuse are answered here: then the action returns the
  /// exit code, 0 or 2.
  Action parse(int argc, const char* const* argv);

 private:
  struct Impl;
  explicit Command(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::cli
