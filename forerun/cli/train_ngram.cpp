#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/terminal.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainNgramFlags {
  std::vector<std::string> data;
  std::string out;
};

// An ARPA file may lie beside them, and be replaced.
std::vector<std::string> files_of_answers(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    std::error_code failed;
    for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      if (at->path().extension() != ".arpa") out.push_back(at->path().string());
    }
  }
  return out;
}

int run_train_ngram(const TrainNgramFlags& f) {
  expect_apart({{"--out", f.out}}, files_of_answers(f.data));
  const NgramReport r = [&] {
    const EndsAtFirst nothing_is_lost;
    return train_ngram(f.data, f.out);
  }();
  write_out(
      fmt::format("{}: {} documents of {} tokens; {} different tokens, {} bigrams, {} "
                  "trigrams\n",
                  printable(f.out), r.documents, r.tokens, r.grams[0], r.grams[1], r.grams[2]));
  return 0;
}

}  // namespace

void add_train_ngram(Command& train) {
  auto f = std::make_shared<TrainNgramFlags>();
  Command& ngram = train.add_command(
      "ngram", "Trigrams of token ids, as an ARPA file: what diffuspec's search weighs with");
  ngram.add("--data", f->data, "Folders that forerun distill wrote", {.required = true});
  ngram.add("--out", f->out, "ARPA file; replaced if it is there", {.required = true});
  ngram.footer(R"(Example:
  forerun train ngram --data answers --out answers.arpa
  forerun generate -m model.gguf -d diffuspec:drafter:ngram=answers.arpa -p "Once upon a time"

Modified Kneser-Ney, orders 1 to 3; words are decimal token ids.)");
  ngram.runs([f] { return run_train_ngram(*f); });
}

}  // namespace forerun::cli
