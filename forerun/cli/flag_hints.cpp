#include "forerun/cli/flag_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {
namespace {

// A flag of another program: the flag that does the same here, or why there is none.
struct Foreign {
  std::string_view names;  // with a space around each
  std::string_view flag;   // "" = none does
  std::string_view words;
};

constexpr std::string_view kLocal = "models are read from files and folders of this machine";
constexpr std::string_view kContext = "the context is the model's; memory is taken as texts grow";
constexpr std::string_view kCpu = "it computes on CPUs";

constexpr std::array<Foreign, 27> kForeign{{
    {" -hf -hfr --hf-repo --hf-file -hff --model-url -mu ", "-m", kLocal},
    {" -m --model ", "", "the model is named without a flag"},
    {" --model-path --tokenizer-path ", "-m", "the tokenizer is the model's own"},
    {" -c --ctx-size --max-model-len --context-length -ctk -ctv --cache-type-k --cache-type-v ", "",
     kContext},
    {" -ngl --gpu-layers --n-gpu-layers -ngld -sm -mg -dev --device --tensor-parallel-size --tp "
     "-fa --flash-attn ",
     "", kCpu},
    {" -t --threads-batch -tb ", "--threads", ""},
    {" -b -ub --batch-size --ubatch-size ", "", "passes have the rows that their texts need"},
    {" --mlock --no-mmap --cont-batching -cb -np --parallel --max-num-seqs "
     "--max-running-requests ",
     "--max-active", "texts share passes as they come"},
    {" --dtype --quantization -q ", "--precision", ""},
    {" -md --model-draft --draft-model --speculative-config --speculative-algorithm "
     "--spec-draft-model ",
     "--drafter", "as in --drafter draft-model:FILE"},
    {" --draft-max --draft --draft-n --num-speculative-tokens --speculative-num-draft-tokens ",
     "--max-draft", ""},
    {" -no-cnv --no-conversation ", "--raw", "texts are continued with it as they are"},
    {" -cnv --conversation ", "", "forerun chat holds conversations"},
    {" -sys --system-prompt ", "--system", ""},
    {" --interactive -i ", "", "forerun chat holds conversations"},
    {" -s ", "--seed", ""},
    {" --alias -a --served-model-name ", "--name", ""},
    {" --api-key ", "--api-key-file",
     "the file holds a key a line; a command's words can be seen by others"},
    {" --chat-template-file --chat-template ", "", "the chat template is the model's own"},
    {" --jinja --no-jinja ", "", "the model's own chat template is used"},
    {" --json ", "--json-schema", ""},
    {" --grammar --grammar-file ", "--json-schema",
     "or --regex, or --choice; grammars in GBNF are not read"},
    {" -j ", "--json-schema", ""},
    {" --guided-regex --pattern ", "--regex", ""},
    {" --no-warmup --verbose-prompt --no-display-prompt -st -lv -sp ", "",
     "nothing is lost without it"},
    {" --reasoning-parser --enable-reasoning ", "--reasoning-format",
     "the tags are those of the model's chat template"},
    {" --gpu-memory-utilization --mem-fraction-static ", "--memory", ""},
}};

// Insertions, deletions and substitutions from one to the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t before = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = before + (a[i - 1] == b[j - 1] ? 0 : 1);
      before = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

const Foreign* foreign(std::string_view word) {
  const std::string padded = fmt::format(" {} ", word);
  const auto* const at = std::ranges::find_if(
      kForeign, [&](const Foreign& f) { return f.names.find(padded) != std::string_view::npos; });
  return at == kForeign.end() ? nullptr : at;
}

}  // namespace

bool is_foreign_short_flag(std::string_view word) {
  return word.size() > 2 && word[0] == '-' && word[1] != '-' && foreign(word) != nullptr;
}

std::string flag_hint(std::string_view word, std::span<const std::string> flags) {
  const std::string name(word.substr(0, word.find('=')));
  const auto has = [&](std::string_view flag) {
    return std::ranges::find(flags, flag) != flags.end();
  };
  if (const Foreign* const f = foreign(name)) {
    const std::string words = f->words.empty() ? "" : fmt::format(": {}", f->words);
    if (has(f->flag)) return fmt::format("{} is {} here{}", name, f->flag, words);
    if (!words.empty()) return fmt::format("{} is not needed{}", name, words);
  }
  if (!name.starts_with("--")) return "";
  std::string dashes = name;
  std::ranges::replace(dashes, '_', '-');
  const std::string* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(2, name.size() / 4) + 1;
  for (const std::string& flag : flags) {
    if (!flag.starts_with("--")) continue;
    const std::size_t d = distance(dashes, flag);
    if (d < least) {
      least = d;
      nearest = &flag;
    }
  }
  return nearest == nullptr ? "" : fmt::format("did you mean {}?", *nearest);
}

}  // namespace forerun::cli
