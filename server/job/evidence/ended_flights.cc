#include "server/job/evidence/ended_flights.h"

#include <utility>

#include "server/job/evidence/collective_survey.h"

namespace farandole {

void EndedFlights::Keep(uint32_t rank, v1::FlightRecords flight, const std::shared_ptr<ByteAccount>& account) {
  if (charge_.account() == nullptr) charge_ = ByteCharge(account, ByteKind::kReports);
  if (survey_charge_.account() == nullptr) survey_charge_ = ByteCharge(account, ByteKind::kReports);
  const auto bytes = static_cast<int64_t>(flight.SpaceUsedLong());
  if (!charge_.Grow(bytes, ByteClass::kObserver).ok()) return;
  const auto [place, is_new] = flights_.try_emplace(rank);
  v1::FlightRecords& kept = place->second;
  if (!is_new) charge_.Resize(charge_.bytes() - static_cast<int64_t>(kept.SpaceUsedLong()));
  kept = std::move(flight);
  ++version_;
}

void EndedFlights::Clear() {
  const uint64_t made = made_;
  *this = EndedFlights();
  made_ = made;
}

const FlightFinding& EndedFlights::Judge(uint32_t size, absl::Time now) {
  if (IsDue(size, now, &found_)) finding_ = JudgeFlights(flights_, size);
  return finding_;
}

const v1::SurveyCollectivesResponse& EndedFlights::Survey(uint32_t size, absl::Time now) {
  if (!IsDue(size, now, &surveyed_)) return survey_;
  survey_ = SurveyCollectives(flights_, size);
  survey_charge_.Resize(static_cast<int64_t>(survey_.SpaceUsedLong()));
  return survey_;
}

absl::Time EndedFlights::JudgesAt() const {
  return found_.version == version_ ? absl::InfiniteFuture() : found_.at + kDistance;
}

bool EndedFlights::IsDue(uint32_t size, absl::Time now, Made* made) {
  if (made->version == version_) return false;
  const size_t ranks = flights_.size();
  const bool is_worth_it = ranks <= kFew || ranks > made->ranks + made->ranks / 2 || ranks == size;
  if (!(ranks > made->ranks && is_worth_it) && now < made->at + kDistance) return false;
  *made = {version_, ranks, now};
  ++made_;
  return true;
}

}  // namespace farandole
