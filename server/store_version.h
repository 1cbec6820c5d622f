#ifndef FARANDOLE_SERVER_STORE_VERSION_H_
#define FARANDOLE_SERVER_STORE_VERSION_H_

#include <cstdint>

namespace farandole {

// The version of the rows that this coordinator writes; see SchemaRecord of store.proto.
inline constexpr uint32_t kStoreSchema = 3;

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_VERSION_H_
