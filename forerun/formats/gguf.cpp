#include "forerun/formats/gguf.h"

#include <fmt/format.h>

#include "forerun/base/gguf_parts.h"
#include "forerun/base/quote.h"

namespace forerun {

const TensorView* Gguf::find(std::string_view tensor) const {
  const auto found = tensor_index_.find(tensor);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* Gguf::find_value(std::string_view key) const {
  const auto found = entry_index_.find(key);
  return found == entry_index_.end() ? nullptr : &metadata_[found->second].value;
}

Error Gguf::missing(std::string_view key) {
  return {fmt::format("metadata {} is missing; convert the model again", quote(key))};
}

Error Gguf::mistyped(std::string_view key, const Error& why) {
  return {fmt::format("metadata {} {}", quote(key), why.message)};
}

void Gguf::throw_error(const Error& error) const {
  throw FormatError(path_.empty() ? error.message : fmt::format("{}: {}", path_, error.message));
}

void Gguf::append(Gguf&& part) {
  for (TensorView& tensor : part.tensors_) {
    // The key lies in the part's bytes, as the part's own index has it.
    const std::string_view name = part.tensor_index_.find(tensor.name)->first;
    if (!tensor_index_.emplace(name, tensors_.size()).second) {
      throw FormatError(
          fmt::format("{}: tensor {} is in another part too; download the parts again", part.path_,
                      quote(name)));
    }
    tensors_.push_back(std::move(tensor));
  }
}

Gguf Gguf::load_part(const std::filesystem::path& path, std::vector<MappedFile>& files) {
  files.push_back(load_file(path));
  Result<Gguf> parsed = parse_gguf(files.back().bytes());
  if (!parsed) throw FormatError(fmt::format("{}: {}", path.string(), parsed.error().message));
  Gguf out = *std::move(parsed);
  out.path_ = path.string();
  return out;
}

namespace {

// The file of every part; the first one is open.
std::vector<std::filesystem::path> files_of_parts(const Gguf& first) {
  const auto name = gguf_part_name(first.path());
  if (!name || name->part != first.part() || name->count != first.parts()) {
    throw FormatError(
        fmt::format("{}: is part {} of {} of a split model, which its name does not say; give the "
                    "parts their names again, as in {}",
                    first.path(), first.part(), first.parts(),
                    GgufPartName{.stem = "model", .part = 1, .count = first.parts()}
                        .file(first.part())
                        .string()));
  }
  if (first.part() != 1) {
    throw FormatError(fmt::format("{}: is part {} of {} of a split model; name the first one, {}",
                                  first.path(), first.part(), first.parts(),
                                  name->file(1).string()));
  }
  return gguf_files(first.path());
}

void expect_every_tensor(const Gguf& whole) {
  const auto count = whole.get<std::int64_t>("split.tensors.count");
  if (!count || *count == static_cast<std::int64_t>(whole.tensors().size())) return;
  throw FormatError(
      fmt::format("{}: its {} parts hold {} tensors where the model has {}; download them again",
                  whole.path(), whole.parts(), whole.tensors().size(), *count));
}

}  // namespace

Gguf load_gguf(const std::filesystem::path& path) {
  auto files = std::make_shared<std::vector<MappedFile>>();
  Gguf out = Gguf::load_part(path, *files);
  if (out.parts() > 1) {
    const std::vector<std::filesystem::path> names = files_of_parts(out);
    for (std::size_t i = 1; i < names.size(); ++i) {
      Gguf part = Gguf::load_part(names[i], *files);
      if (part.part() != static_cast<int>(i) + 1 || part.parts() != out.parts()) {
        throw FormatError(fmt::format(
            "{}: is part {} of {} by what it holds; download it again, or give it its name again",
            names[i].string(), part.part(), part.parts()));
      }
      out.append(std::move(part));
    }
    expect_every_tensor(out);
  }
  out.files_ = std::move(files);
  return out;
}

}  // namespace forerun
