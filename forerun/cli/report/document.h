#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace forerun::cli::report {

using Number = std::optional<double>;  ///< nothing: missing, of another type, or not finite

/// How fast, on all prompts or those of one category.
struct Speed {
  Number ratio, tok_s, tau, outputs, rounds;
};

struct Category {
  std::string name;
  Speed speed;
};

/// Drafts at one position behind the kept prefix.
struct Position {
  Number examined, accepted;
  Number share() const;
};

struct Difference {
  Number prompt, position, drafted, plain, margin;
  bool tie = false, one_ended = false;
};

enum class Kinship { kPlain, kUnknown, kIdentical, kTies, kSameLaw, kDifferent, kInexact };

struct Drafter {
  std::string name;   ///< in full
  std::string shown;  ///< short enough for a chart, and says where the rule is inexact
  int series = 0;     ///< 0 plain decoding; else the colour and shape
  Speed speed;
  std::vector<Category> categories;
  std::vector<Position> positions;
  Number ms_drafter, ms_target, ms_rest;  ///< of a round
  Number drafted;
  std::vector<std::pair<int, double>> draft_lengths;  ///< chosen length, rounds; ascending
  Kinship kinship = Kinship::kUnknown;                ///< with plain decoding's texts
  std::vector<Difference> differences;

  bool plain() const { return kinship == Kinship::kPlain; }
  Number examined() const;
  Number accepted() const;
  /// Milliseconds of one round; nothing if a part is missing.
  Number ms_round() const;
};

struct CostPoint {
  int tokens = 1;
  double ms = 0.0;
};

/// What one pass of the target takes, by the tokens it scores; empty if it was not measured.
struct Cost {
  std::string precision;
  Number prefix, bandwidth_limit_ms;
  std::vector<CostPoint> points;  ///< ascending

  Number ms_of_one() const;
};

struct Report {
  std::string version, date, cpu, model, precision, rule, command;
  Number threads, temperature, seed, prompts, prompts_total;
  std::vector<Drafter> drafters;
  Cost cost;

  bool interrupted() const { return prompts && prompts_total && *prompts < *prompts_total; }
  const Drafter* baseline() const;
  /// The drafters without plain decoding.
  std::vector<const Drafter*> speculating() const;
};

/// Reads the document that report.h describes; never fails, whatever it holds.
Report read_document(const nlohmann::json& document);

}  // namespace forerun::cli::report
