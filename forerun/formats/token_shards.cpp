#include "forerun/formats/token_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "forerun/formats/safetensors_write.h"

namespace forerun {
namespace {

template <class T>
TensorView view(const char* name, DType dtype, const std::vector<T>& values) {
  return {
      name, dtype, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}

struct Shard {
  std::span<const Token> tokens;
  std::span<const std::int64_t> ends, prompts, ids;
};

Result<Shard> parse_shard(const Safetensors& file) {
  const auto tokens = numbers_of<Token>(file, "tokens", DType::kI32);
  if (!tokens) return tokens.error();
  Shard out{.tokens = *tokens};
  const auto all = {std::pair{"ends", &out.ends}, std::pair{"prompts", &out.prompts},
                    std::pair{"ids", &out.ids}};
  for (const auto& [name, place] : all) {
    const auto read = numbers_of<std::int64_t>(file, name, DType::kI64);
    if (!read) return read.error();
    *place = *read;
  }
  if (out.prompts.size() != out.ends.size() || out.ids.size() != out.ends.size()) {
    return Error{"'ends', 'prompts' and 'ids' differ in length; the file is damaged"};
  }
  std::int64_t begin = 0;
  const auto total = static_cast<std::int64_t>(out.tokens.size());
  for (std::size_t i = 0; i < out.ends.size(); ++i) {
    const std::int64_t end = out.ends[i];
    if (end < begin || end > total || out.prompts[i] < 0 || out.prompts[i] > end - begin) {
      return Error{fmt::format("document {} does not fit its tokens; the file is damaged", i)};
    }
    begin = end;
  }
  if (begin != total) return Error{"tokens of no document follow the last; the file is damaged"};
  return out;
}

}  // namespace

void write_token_shard(const std::filesystem::path& path, std::span<const TokenDocument> documents,
                       const Safetensors::Metadata& metadata) {
  std::vector<Token> tokens;
  std::vector<std::int64_t> ends, prompts, ids;
  for (const TokenDocument& d : documents) {
    if (d.prompt < 0 || d.prompt > static_cast<std::int64_t>(d.tokens.size())) {
      throw std::invalid_argument("write_token_shard: a prompt is longer than its document");
    }
    tokens.insert(tokens.end(), d.tokens.begin(), d.tokens.end());
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
    prompts.push_back(d.prompt);
    ids.push_back(d.id);
  }
  const std::vector<TensorView> views{
      view("tokens", DType::kI32, tokens), view("ends", DType::kI64, ends),
      view("prompts", DType::kI64, prompts), view("ids", DType::kI64, ids)};
  write_safetensors(path, views, metadata);
}

TokenShards TokenShards::load(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  }
  if (failed) {
    throw FormatError(
        fmt::format("{}: cannot be read ({}); give a folder that `forerun distill` wrote",
                    folder.string(), failed.message()));
  }
  std::sort(paths.begin(), paths.end());
  TokenShards out;
  for (const auto& path : paths) {
    out.files_.push_back(load_safetensors(path));
    const Result<Shard> shard = parse_shard(out.files_.back());
    if (!shard) throw FormatError(fmt::format("{}: {}", path.string(), shard.error().message));
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < shard->ends.size(); ++i) {
      const auto first = static_cast<std::size_t>(begin);
      const auto n = static_cast<std::size_t>(shard->ends[i] - begin);
      out.documents_.push_back({shard->tokens.subspan(first, n), shard->prompts[i], shard->ids[i]});
      begin = shard->ends[i];
    }
  }
  if (!out.files_.empty()) out.metadata_ = out.files_.front().metadata();
  return out;
}

}  // namespace forerun
