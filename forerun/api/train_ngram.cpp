#include <fmt/format.h>

#include <span>

#include "forerun/api/train_answers.h"
#include "forerun/base/atomic_file.h"
#include "forerun/core/kneser_ney.h"
#include "forerun/formats/arpa.h"
#include "forerun/train.h"

namespace forerun {

NgramReport train_ngram(const std::vector<std::string>& data, const std::string& out) {
  need(!data.empty(), "no data: give folders that forerun distill wrote");
  std::vector<TokenShards> folders;
  for (const std::string& folder : data) folders.push_back(TokenShards::load(folder));
  NgramReport report;
  std::vector<std::span<const Token>> documents;
  for (const TokenShards& shards : folders) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
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
