#ifndef FARANDOLE_SDK_CPP_FARANDOLE_WIRE_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {
inline namespace sdk {

/// Reads a message that is encoded as Protocol Buffers have it (protobuf.dev/programming-guides/encoding), field by
/// field. Fields that a program does not know it leaves out, so that a newer coordinator may send more. Borrows the
/// bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}

  /// Goes to the next field. False: there is none, or the bytes are no message.
  bool Next() {
    uint64_t tag = 0;
    if (left_.empty() || !ReadVarint(&tag)) return false;
    field_ = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return ReadVarint(&number_);
      case 1:
        return ReadFixed(sizeof(uint64_t));
      case 2: {
        uint64_t size = 0;
        return ReadVarint(&size) && Take(size);
      }
      case 5:
        return ReadFixed(sizeof(uint32_t));
      default:
        return Fail();
    }
  }
  /// False: the bytes are no message. Known after the last Next().
  bool is_message() const { return is_message_; }

  /// Of the present field: its number in the proto, and its value as one of these.
  int field() const { return field_; }
  template <typename Number = uint64_t>
  Number As() const {
    return static_cast<Number>(number_);
  }
  /// A sint64.
  int64_t Zigzag() const { return static_cast<int64_t>(number_ >> 1) ^ -static_cast<int64_t>(number_ & 1); }
  double Real() const {
    double value = 0;
    std::memcpy(&value, &number_, sizeof(value));
    return value;
  }
  std::string Text() const { return std::string(bytes_); }
  WireReader Message() const { return WireReader(bytes_); }
  /// Of a repeated number, all at once.
  template <typename Number>
  std::vector<Number> Numbers() const {
    std::vector<Number> numbers;
    WireReader packed(bytes_);
    for (uint64_t number = 0; !packed.left_.empty() && packed.ReadVarint(&number);) {
      numbers.push_back(static_cast<Number>(number));
    }
    return numbers;
  }

 private:
  bool Fail() {
    left_ = {};
    is_message_ = false;
    return false;
  }
  bool ReadVarint(uint64_t* number) {
    *number = 0;
    for (int shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      *number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return Fail();
  }
  bool Take(uint64_t size) {
    if (size > left_.size()) return Fail();
    bytes_ = left_.substr(0, static_cast<size_t>(size));
    left_.remove_prefix(static_cast<size_t>(size));
    return true;
  }
  // Little-endian, as the machines are that the library is built for.
  bool ReadFixed(size_t size) {
    if (!Take(size)) return false;
    number_ = 0;
    std::memcpy(&number_, bytes_.data(), size);
    return true;
  }

  std::string_view left_;
  bool is_message_ = true;
  int field_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

/// Writes one. Values that a proto takes for granted ("" and 0) are left out, as is usual, but for Always
/// and AlwaysText.
class WireWriter {
 public:
  WireWriter& Text(int field, std::string_view text) { return text.empty() ? *this : AlwaysText(field, text); }
  WireWriter& AlwaysText(int field, std::string_view text) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(text.size());
    bytes_.append(text);
    return *this;
  }
  WireWriter& Number(int field, uint64_t number) { return number == 0 ? *this : Always(field, number); }
  WireWriter& Always(int field, uint64_t number) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(number);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<char>((number & 0x7f) | 0x80));
    bytes_.push_back(static_cast<char>(number));
  }

  std::string bytes_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_WIRE_H_
