#include "worker/device/nccl/nccl_invitation.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace farandole {
namespace {

// Enough for a rank in eight sets, as those of a grid of four dimensions are, of which some have few ranks.
constexpr size_t kNumbersOfRank = 16;
constexpr size_t kLeastNumbers = 64;

size_t NumbersFor(size_t ranks) { return kLeastNumbers + kNumbersOfRank * ranks; }

}  // namespace

size_t NcclInvitation::BytesFor(size_t ranks) { return sizeof(NcclUniqueId) + NumbersFor(ranks) * sizeof(int32_t); }

std::string NcclInvitation::Pack(size_t ranks) const {
  // How many sets, and of each its number, how many ranks, and these.
  std::vector<int32_t> numbers = {0};
  for (const auto& [number, members] : sets) {
    if (numbers.size() + 2 + members.size() > NumbersFor(ranks)) break;
    ++numbers[0];
    numbers.push_back(static_cast<int32_t>(number));
    numbers.push_back(static_cast<int32_t>(members.size()));
    numbers.insert(numbers.end(), members.begin(), members.end());
  }
  numbers.resize(NumbersFor(ranks));
  std::string bytes(id.internal, sizeof(id.internal));
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int32_t));
  return bytes;
}

absl::StatusOr<NcclInvitation> NcclInvitation::Unpack(absl::string_view bytes, size_t ranks) {
  const auto changed = [ranks] {
    return absl::DataLossError(absl::StrCat(
        "the invitation of ", ranks, " ranks to connect by NCCL was changed on its way: no rank sends such sets"));
  };
  if (bytes.size() != BytesFor(ranks)) return changed();
  NcclInvitation invitation;
  std::memcpy(&invitation.id, bytes.data(), sizeof(invitation.id));
  std::vector<int32_t> numbers(NumbersFor(ranks));
  std::memcpy(numbers.data(), bytes.data() + sizeof(invitation.id), numbers.size() * sizeof(int32_t));
  absl::Span<const int32_t> rest = absl::MakeConstSpan(numbers).subspan(1);
  for (int32_t left = numbers[0]; left != 0; --left) {
    if (left < 0 || rest.size() < 2) return changed();
    const auto set = static_cast<uint32_t>(rest[0]);
    const int32_t count = rest[1];
    rest.remove_prefix(2);
    if (count < 0 || static_cast<size_t>(count) > rest.size()) return changed();
    std::vector<int> members(rest.begin(), rest.begin() + count);
    rest.remove_prefix(count);
    const bool ascend = std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
    const bool fit = members.empty() || (members.front() >= 0 && static_cast<size_t>(members.back()) < ranks);
    if (!ascend || !fit || !invitation.sets.try_emplace(set, std::move(members)).second) return changed();
  }
  return invitation;
}

}  // namespace farandole
