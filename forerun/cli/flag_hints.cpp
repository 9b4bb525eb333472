#include "forerun/cli/flag_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {
namespace {

// A flag of another program: the flag that does the same here, or why there is none.
struct Foreign {
  std::string_view names;  // with a space around each
  std::string_view flag;   // kNeedless, kAbsent, or the flag here
  std::string_view words;
};

constexpr std::string_view kNeedless, kAbsent = "-";
constexpr std::string_view kLocal = "models are read from files and folders of this machine";
constexpr std::string_view kContext = "the context is the model's; memory is taken as texts grow";
constexpr std::string_view kCpu = "it computes on CPUs";
constexpr std::string_view kOwnTemplate = "the chat template is the model's own";

// Of serve alone, where requests say what flags say elsewhere.
constexpr Foreign kForeignToServe[] = {
    {" -n --n-predict --predict --max-tokens ", kAbsent, "requests say max_tokens"},
    {" --seed -s ", kAbsent, "requests say seed, and answers tell the one that was drawn"},
    {" --json-schema -j --json --regex --choice --grammar --grammar-file ", kAbsent,
     "requests say response_format, regex or guided_choice; grammars in GBNF are not read"},
    {" --chat-template-kwargs --default-chat-template-kwargs ", kAbsent,
     "requests say chat_template_kwargs"},
    {" --system --system-prompt -sys ", kAbsent, "requests hold the system message"},
    {" --stop --ignore-eos --ignore-end --logit-bias --reasoning-budget ", kAbsent,
     "requests say stop, ignore_eos, logit_bias and reasoning_effort"},
    {" --override-generation-config ", kAbsent, "--temp, --top-k, --top-p and the like do that"},
    {" --enable-auto-tool-choice --tool-call-parser ", kNeedless,
     "tools of requests are called in the form of Hermes and Qwen, or in the model's own channels"},
    {" --metrics --props ", kNeedless, "/metrics and /props are always there"},
    {" --no-slots ", kNeedless, "there is no /slots"},
    {" --slots ", kAbsent, "/metrics tells of the texts that run"},
    {" --no-webui --no-ui ", kAbsent, "the page is always there"},
    {" --allowed-origins --cors-origins ", "--allow-origin", ""},
    {" --ssl-keyfile --ssl-certfile --ssl-key-file --ssl-cert-file --root-path --api-prefix ",
     kAbsent, "put a proxy before it"},
    {" --embedding --embeddings --reranking --rerank --pooling --task --runner ", kAbsent,
     "it writes texts and makes images"},
    {" --log-disable --disable-log-requests --enable-log-requests --disable-log-stats --log-level "
     "--uvicorn-log-level --log-file ",
     kAbsent, "a line of JSON for every request goes to standard error"},
    {" -to ", "--timeout", ""},
};

constexpr Foreign kForeign[] = {
    {" -hf -hfr --hf-repo --hf-file -hff --model-url -mu ", "-m", kLocal},
    {" -m --model ", kNeedless, "the model is named without a flag"},
    {" --hf-token -hft --revision --download-dir --load-format ", kNeedless, kLocal},
    {" --model-path ", "-m", ""},
    {" --tokenizer-path --tokenizer --tokenizer-mode ", kNeedless,
     "the tokenizer is the model's own"},
    {" --trust-remote-code ", kNeedless, "no code of a model is run"},
    {" -c --ctx-size --max-model-len --context-length -ctk -ctv --cache-type-k --cache-type-v ",
     kNeedless, kContext},
    {" -ngl --gpu-layers --n-gpu-layers -ngld -sm -mg -dev --device --tensor-parallel-size --tp "
     "-tp -pp -dp --pipeline-parallel-size --data-parallel-size -fa --flash-attn ",
     kNeedless, kCpu},
    {" -t --threads-batch -tb ", "--threads", ""},
    {" -b -ub --batch-size --ubatch-size --max-num-batched-tokens --chunked-prefill-size "
     "--enable-chunked-prefill ",
     kNeedless, "passes have the rows that their texts need"},
    {" --enable-prefix-caching --no-enable-prefix-caching --cache-prompt --cache-reuse "
     "--cache-ram ",
     kNeedless, "texts that begin alike share keys and values"},
    {" --mlock --no-mmap ", kNeedless,
     "weights are in memory, but for those that --precision file leaves in their file"},
    {" --cont-batching -cb -np --parallel --max-num-seqs --max-running-requests ", "--max-active",
     "texts share passes as they come"},
    {" --dtype --quantization -q ", "--precision", ""},
    {" -md --model-draft --draft-model --speculative-config --speculative-algorithm "
     "--spec-draft-model --spec-type ",
     "--drafter", "as in --drafter draft-model:FILE"},
    {" --draft-max --draft --draft-n --num-speculative-tokens --speculative-num-draft-tokens ",
     "--max-draft", ""},
    {" --draft-min --draft-p-min ", kNeedless, "drafts are as long as pays"},
    {" -no-cnv --no-conversation ", "--raw", "texts are continued with it as they are"},
    {" -cnv --conversation ", kNeedless, "forerun chat holds conversations"},
    {" -sys --system-prompt ", "--system", ""},
    {" --interactive -i ", kNeedless, "forerun chat holds conversations"},
    {" -s ", "--seed", ""},
    {" --alias -a --served-model-name ", "--name", ""},
    {" --api-key ", "--api-key-file",
     "the file holds a key a line; a command's words can be seen by others"},
    {" --chat-template-file --chat-template --chat-template-content-format ", kNeedless,
     kOwnTemplate},
    {" --jinja --no-jinja ", kNeedless, "the model's own chat template is used"},
    {" --json -j ", "--json-schema", ""},
    {" --grammar --grammar-file ", "--json-schema",
     "or --regex, or --choice; grammars in GBNF are not read"},
    {" --guided-regex --pattern ", "--regex", ""},
    {" --guided-decoding-backend --structured-outputs-config ", kNeedless,
     "forms are kept without it"},
    {" --samplers --sampling-seq --mirostat --typical --typical-p --xtc-probability "
     "--dry-multiplier --dynatemp-range --top-nsigma ",
     kAbsent, "texts are drawn by --temp, --top-k, --top-p, --min-p and penalties"},
    {" --rope-scaling --rope-freq-base --rope-freq-scale --yarn-orig-ctx ", kNeedless,
     "it is as the model's file says"},
    {" --lora --lora-scaled --enable-lora --lora-modules ", kAbsent,
     "merge adapters into the model before"},
    {" --mmproj -mm --limit-mm-per-prompt ", kAbsent, "images are not read, only texts"},
    {" --no-warmup --warmup --no-display-prompt -st -lv --enforce-eager "
     "--swap-space --cpu-offload-gb --numa --prio --poll -kvu --swa-full --threads-http ",
     kNeedless, "nothing is lost without it"},
    {" --no-context-shift ", kNeedless, "a text ends where the model's context does"},
    {" --context-shift --keep ", kAbsent, "a text ends where the model's context does"},
    {" --verbose-prompt -sp --special ", kAbsent, "prompts and special tokens are not shown"},
    {" --reasoning-parser --enable-reasoning ", "--reasoning-format",
     "the tags are those of the model's chat template"},
    {" --gpu-memory-utilization --mem-fraction-static ", "--memory", ""},
};

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

const Foreign* foreign(std::string_view word, std::span<const Foreign> all) {
  const std::string padded = fmt::format(" {} ", word);
  const auto at = std::ranges::find_if(
      all, [&](const Foreign& f) { return f.names.find(padded) != std::string_view::npos; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

bool is_foreign_short_flag(std::string_view word) {
  return word.size() > 2 && word[0] == '-' && word[1] != '-' &&
         (foreign(word, kForeign) != nullptr || foreign(word, kForeignToServe) != nullptr);
}

std::string flag_hint(std::string_view word, std::span<const std::string> flags) {
  const std::string name(word.substr(0, word.find('=')));
  const auto has = [&](std::string_view flag) {
    return std::ranges::find(flags, flag) != flags.end();
  };
  std::string dashes = name;
  std::ranges::replace(dashes, '_', '-');
  const Foreign* f = has("--port") ? foreign(dashes, kForeignToServe) : nullptr;
  if (f == nullptr) f = foreign(dashes, kForeign);
  if (f != nullptr) {
    const std::string words = f->words.empty() ? "" : fmt::format(": {}", f->words);
    if (f->flag == kNeedless) return fmt::format("{} is not needed{}", name, words);
    if (f->flag == kAbsent) return fmt::format("there is no {}{}", name, words);
    if (has(f->flag)) return fmt::format("{} is {} here{}", name, f->flag, words);
  }
  if (!name.starts_with("--")) return "";
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
