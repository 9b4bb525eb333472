#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>

#include "forerun/api/train_answers.h"
#include "forerun/base/atomic_file.h"
#include "forerun/core/kneser_ney.h"
#include "forerun/formats/arpa.h"
#include "forerun/train.h"

namespace forerun {
namespace {

// A model or a prompt file whose name was given by mistake.
void expect_replaceable(const std::string& out) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(out, failed) || std::filesystem::is_empty(out, failed)) {
    return;
  }
  constexpr std::string_view kBegin = "\\data\\";
  std::string begin(64, '\0');
  std::ifstream(out, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  need(begin.find(kBegin) != std::string::npos,
       fmt::format("{} is no ARPA file, and not replaced: name another", out));
}

}  // namespace

NgramReport train_ngram(const std::vector<std::string>& data, const std::string& out) {
  need(!data.empty(), "no data: give folders that forerun distill wrote");
  expect_replaceable(out);
  std::vector<TokenShards> folders;
  for (const std::string& folder : data) folders.push_back(TokenShards::load(folder));
  NgramReport report;
  std::vector<std::span<const Token>> documents;
  for (const TokenShards& shards : folders) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards.tokens(i).empty()) continue;  // a prompt that has no answer
      documents.push_back(shards.tokens(i));
      report.tokens += documents.back().size();
    }
  }
  need(!documents.empty(), fmt::format("{} holds no answers: see forerun distill", data.front()));
  report.documents = documents.size();
  AtomicFile file(out);  // before the work: a folder that is missing is said at once
  const BackoffNgram law = estimate_kneser_ney(documents);
  for (int order = 1; order <= BackoffNgram::kMostOrder; ++order) {
    report.grams.push_back(law.size(order));
  }
  file.commit(to_arpa(law));
  return report;
}

}  // namespace forerun
