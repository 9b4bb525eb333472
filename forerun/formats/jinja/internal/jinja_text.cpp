#include "forerun/formats/jinja/internal/jinja_text.h"

#include <algorithm>

namespace forerun::jinja {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

JinjaText::JinjaText(std::string bytes, bool given) : bytes_(std::move(bytes)) {
  if (given && !bytes_.empty()) given_ = {{0, bytes_.size()}};
}

void JinjaText::grow(std::string_view more) {
  if (more.size() > kMostBytes - std::min(kMostBytes, bytes_.size())) {
    throw JinjaError("a text grows too long");
  }
  bytes_ += more;
}

JinjaText JinjaText::part(std::size_t begin, std::size_t n) const {
  JinjaText out(bytes_.substr(begin, n));
  const std::size_t end = begin + out.size();
  auto at = std::lower_bound(given_.begin(), given_.end(), begin,
                             [](const TextRange& r, std::size_t place) { return r.end <= place; });
  for (; at != given_.end() && at->begin < end; ++at) {
    out.given_.push_back({std::max(at->begin, begin) - begin, std::min(at->end, end) - begin});
  }
  return out;
}

JinjaText JinjaText::replaced(std::string bytes) const {
  JinjaText out(std::move(bytes));
  out.given_ = given_;
  return out;
}

void JinjaText::add(const JinjaText& more) {
  const std::size_t before = size();
  grow(more.bytes_);
  for (const TextRange& r : more.given_) {
    if (!given_.empty() && given_.back().end == before + r.begin) {
      given_.back().end = before + r.end;
    } else {
      given_.push_back({before + r.begin, before + r.end});
    }
  }
}

void JinjaText::write(std::string_view own) { grow(own); }

std::size_t jinja_length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::size_t jinja_place(std::string_view text, std::size_t i) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (begins_character(text[at]) && i-- == 0) break;
  }
  return at;
}

}  // namespace forerun::jinja
