#include "worker/device/nccl/nccl_invitation.h"

#include <cstring>

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

NcclInvitation NcclInvitation::Unpack(absl::string_view bytes) {
  NcclInvitation invitation;
  std::memcpy(&invitation.id, bytes.data(), sizeof(invitation.id));
  bytes.remove_prefix(sizeof(invitation.id));
  std::vector<int32_t> numbers(bytes.size() / sizeof(int32_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(int32_t));
  auto next = numbers.begin();
  for (int32_t left = *next++; left > 0; --left) {
    std::vector<int>& members = invitation.sets[static_cast<uint32_t>(*next++)];
    const int32_t count = *next++;
    members.assign(next, next + count);
    next += count;
  }
  return invitation;
}

}  // namespace farandole
