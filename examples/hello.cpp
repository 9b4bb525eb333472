// Generates a text with and without drafting. usage: hello MODEL.gguf [PROMPT]
#include <forerun/forerun.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) throw forerun::UsageError("usage: hello MODEL.gguf [PROMPT]");
  const auto model = forerun::Model::load(argv[1]);
  const auto prompt = model.encode(argc > 2 ? argv[2] : "One, two, three, one, two, three, one,");
  const auto lookup = forerun::Drafter::load("lookup", model);
  for (const auto& drafter : {forerun::Drafter(), lookup}) {
    const auto out = forerun::generate(model, drafter, prompt, {.max_tokens = 32});
    std::cout << drafter.name() << " (tau " << out.statistics.tau() << "):" << out.text << "\n";
  }
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
