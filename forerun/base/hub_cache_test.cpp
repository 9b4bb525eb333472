#include "forerun/base/hub_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// A cache as huggingface_hub makes it, and nothing else of the environment.
class HubCache : public ::testing::Test {
 protected:
  HubCache() {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) before_.emplace_back(name, value);
      unsetenv(name);
    }
    setenv("HF_HUB_CACHE", cache().c_str(), 1);
  }
  ~HubCache() override {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  fs::path cache() const { return temp_.path() / "hub"; }
  fs::path repository() const { return cache() / "models--org--name.v1"; }
  fs::path snapshot() const { return repository() / "snapshots" / "abc123"; }
  void write(const fs::path& path, const std::string& content = "x") const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  void cached(const std::string& file) const {
    write(repository() / "refs" / "main", "abc123");
    write(snapshot() / file);
  }
  static std::string found(const std::string& name) {
    const auto out = find_model(name);
    return out ? *out : "error: " + out.error().message;
  }

  testing::TempFolder temp_;

 private:
  static constexpr const char* kNames[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                           "XDG_CACHE_HOME", "HOME"};
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(HubCache, NamesMeanTheSnapshotOfTheMainBranch) {
  cached("config.json");
  EXPECT_EQ(found("org/name.v1"), snapshot());
  EXPECT_EQ(found(repository()), snapshot());
  EXPECT_EQ(found(repository().string() + "/"), (repository() / "" / "snapshots" / "abc123"));
  EXPECT_EQ(found("org/name.v1/config.json"), snapshot() / "config.json");
  for (const char* name : {"org/other", "org", "org/name.v1/nothing", "org/name.v1/../../refs/main",
                           "../org/name.v1", "/org/name.v1", "org//name.v1", "org/.name", ""}) {
    EXPECT_EQ(found(name), name);
  }
}

TEST_F(HubCache, APathThatIsThereWins) {
  cached("config.json");
  const fs::path before = fs::current_path();
  fs::current_path(temp_.path());
  write("org/name.v1/config.json");
  EXPECT_EQ(found("org/name.v1"), "org/name.v1");
  fs::current_path(before);
}

TEST_F(HubCache, ASnapshotOfOneGgufModelIsThatFile) {
  cached("README.md");
  EXPECT_EQ(found("org/name.v1"), snapshot());
  write(snapshot() / "q4" / "model-00002-of-00002.gguf");
  write(snapshot() / "q4" / "model-00001-of-00002.gguf");
  write(snapshot() / "mmproj-model.gguf");
  EXPECT_EQ(found("org/name.v1"), snapshot() / "q4" / "model-00001-of-00002.gguf");
  write(snapshot() / "other.gguf");
  EXPECT_EQ(found("org/name.v1"),
            "error: org/name.v1 holds 2 GGUF models: other.gguf, q4/model-00001-of-00002.gguf; "
            "name one: org/name.v1/other.gguf");
  EXPECT_EQ(found("org/name.v1/other.gguf"), snapshot() / "other.gguf");
  write(snapshot() / "model.safetensors");
  EXPECT_EQ(found("org/name.v1"), snapshot());
}

TEST_F(HubCache, IsWhereHuggingFaceHasIt) {
  EXPECT_EQ(hub_cache(), cache());
  unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(hub_cache(), "");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(hub_cache(), "/h/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hub_cache(), "/x/huggingface/hub");
  setenv("HF_HOME", "/f", 1);
  EXPECT_EQ(hub_cache(), "/f/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "~/c", 1);
  EXPECT_EQ(hub_cache(), "/h/c");
  setenv("HF_HUB_CACHE", "/~/c", 1);
  EXPECT_EQ(hub_cache(), "/~/c");
}

// What lies there may be damaged, or made by somebody else.
TEST_F(HubCache, StrangeBranchesAreNoSnapshots) {
  cached("config.json");
  for (const std::string& commit :
       {std::string(), std::string("../.."), std::string("a/b"), std::string("gone"),
        std::string(1000, 'a'), std::string("abc123\0x", 8)}) {
    write(repository() / "refs" / "main", commit);
    EXPECT_EQ(found("org/name.v1"), "org/name.v1") << commit;
    EXPECT_EQ(found(repository()), repository()) << commit;
  }
  write(repository() / "refs" / "main", "abc123\n");
  EXPECT_EQ(found("org/name.v1"), snapshot());
}

TEST_F(HubCache, HintsAtTheDownload) {
  EXPECT_NE(download_hint("org/name").find("hf download org/name"), std::string::npos);
  EXPECT_NE(download_hint("org/name/m.gguf").find("hf download org/name m.gguf"),
            std::string::npos);
  for (const char* path : {"model.gguf", "folder/model.gguf", "/a/b", "./a/b", "nothing"}) {
    EXPECT_EQ(download_hint(path), "") << path;
  }
}

}  // namespace
}  // namespace forerun
