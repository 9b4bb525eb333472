#include <cmath>
#include <map>

#include "forerun/api/diffusion_impl.h"
#include "forerun/core/tests_of_fit.h"

namespace forerun {
namespace {

// What was drafted for a lane: by transition, the mean of the draft that decided it.
using DraftMeans = std::map<std::size_t, Latent>;

// Every transition of a finished lane, scored by plain passes over its states.
class Judge {
 public:
  Judge(DitTarget& target, const LatentRule& rule, ImageCertificate& out)
      : target_(target), rule_(rule), out_(out) {}

  void judge(const LatentLane& lane, const DraftMeans& drafts) {
    constexpr std::size_t kRows = 64;
    for (std::size_t first = 0; first < lane.steps(); first += kRows) {
      LatentRows rows;
      for (std::size_t k = first; k < std::min(lane.steps(), first + kRows); ++k) {
        rows.add(lane, lane.states()[k], k);
      }
      const LatentScores scores = target_.score(rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t k = first + i;
        const double sigma = target_.schedule().step(static_cast<std::int64_t>(k)).sigma;
        // Without noise the output is the mean, or it is not.
        if (sigma == 0.0) {
          certain_ += lane.states()[k + 1] == scores.means[i] ? 0 : 1;
          continue;
        }
        const auto draft = drafts.find(k);
        add({scores.means[i], sigma}, k, draft == drafts.end() ? Latent{} : draft->second,
            lane.states()[k + 1]);
      }
    }
  }

  void finish() {
    out_.report = certificate_.report();
    out_.report.forbidden = certain_;
    const auto n = static_cast<double>(std::max<std::uint64_t>(out_.report.drafted, 1));
    out_.shift = shift_ / n;
    out_.predicted_shift = predicted_ / n;
  }

 private:
  void add(const Gaussian& target, std::size_t step, const Latent& draft, const Latent& value) {
    certificate_.add(target, draft, value);
    if (draft.empty()) return;
    double along = 0.0, squares = 0.0;
    for (std::size_t d = 0; d < draft.size(); ++d) {
      const double off = static_cast<double>(draft[d]) - static_cast<double>(target.mean[d]);
      along += off * (static_cast<double>(value[d]) - static_cast<double>(target.mean[d]));
      squares += off * off;
    }
    if (squares == 0.0) return;
    shift_ += along / (std::sqrt(squares) * target.sigma);
    predicted_ += relaxed_law(std::sqrt(squares) / target.sigma, rule_.looseness(step)).shift;
  }

  DitTarget& target_;
  const LatentRule& rule_;
  ImageCertificate& out_;
  GaussianCertificate certificate_;
  double shift_ = 0.0, predicted_ = 0.0;
  std::uint64_t certain_ = 0;
};

}  // namespace

bool ImageCertificate::passed() const noexcept {
  return report.passed() && std::abs(expected_z) < 4.0;
}

ImageCertificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                                std::span<const std::int64_t> labels, const ImageOptions& options,
                                const ImageListener& listener) {
  ImageSampling sampling(model, drafter, labels, options, true);
  ImageCertificate out;
  std::map<std::uint32_t, DraftMeans> drafts;
  double variance = 0.0;
  Judge judge(sampling.target(), sampling.rule(), out);
  out.interrupted = !sampling.run(listener, [&](const ImageSampling::Round& round) {
    for (const ExaminedDraft& d : examined_drafts(round)) {
      const LatentLane& lane = *round.lanes[d.lane];
      const std::size_t first = lane.step() - round.outcomes[d.lane].emitted;
      drafts[lane.request()][d.step] = round.drafts[d.lane].means[d.step - first];
      const double keeps = 2.0 * normal_cdf(-0.5 * d.delta);
      out.kept += d.kept ? 1 : 0;
      out.expected += keeps;
      variance += keeps * (1.0 - keeps);
    }
    for (LatentLane* lane : round.lanes) {
      if (!lane->done()) continue;
      judge.judge(*lane, drafts[lane->request()]);
      drafts.erase(lane->request());
      lane->forget_states();
    }
  });
  judge.finish();
  out.expected_z =
      variance > 0.0 ? (static_cast<double>(out.kept) - out.expected) / std::sqrt(variance) : 0.0;
  out.seconds = sampling.seconds();
  return out;
}

}  // namespace forerun
