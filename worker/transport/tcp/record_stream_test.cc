#include "worker/transport/tcp/record_stream.h"

#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

RecordSecret Secret(char filler = 's') {
  RecordSecret secret;
  secret.fill(static_cast<unsigned char>(filler));
  return secret;
}

// A record of the text, as it goes to the network.
std::string Seal(RecordWriter* writer, const std::string& text) {
  // In two parts, as a transfer's length and its bytes.
  const size_t cut = std::min<size_t>(text.size(), 8);
  char* const data = const_cast<char*>(text.data());
  const iovec parts[] = {{data, cut}, {data + cut, text.size() - cut}};
  writer->Seal(parts, text.size());
  const std::string record(writer->rest());
  EXPECT_EQ(writer->Sent(record.size()), text.size());
  EXPECT_TRUE(writer->rest().empty());
  return record;
}

void Put(RecordReader* reader, const std::string& bytes) {
  const absl::Span<char> room = reader->room();
  ASSERT_GE(room.size(), bytes.size());
  memcpy(room.data(), bytes.data(), bytes.size());
  reader->Add(bytes.size());
}

// All that can be read now, `most` bytes at a time.
absl::StatusOr<std::string> ReadAll(RecordReader* reader, size_t most = kMostRecordBytes) {
  std::string all;
  std::string piece(most, ' ');
  for (;;) {
    const iovec parts[] = {{piece.data(), most / 2}, {piece.data() + most / 2, most - most / 2}};
    const absl::StatusOr<size_t> got = reader->Read(parts, most);
    if (!got.ok()) return got.status();
    if (*got == 0) return all;
    all.append(piece, 0, *got);
  }
}

TEST(RecordStreamTest, WhatIsSealedIsRead) {
  RecordWriter writer(Secret());
  RecordReader reader(Secret());
  for (const size_t size : {1ul, 15ul, 16ul, 17ul, 4096ul, kMostRecordBytes - 1, kMostRecordBytes}) {
    std::string text(size, ' ');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + size);
    const std::string record = Seal(&writer, text);
    EXPECT_EQ(record.size(), size + kRecordOverhead);
    Put(&reader, record);
    const absl::StatusOr<std::string> read = ReadAll(&reader);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == text) << size;
    EXPECT_EQ(reader.held(), 0u);
  }
}

TEST(RecordStreamTest, RecordsComeInAnyPieces) {
  RecordWriter writer(Secret());
  RecordReader reader(Secret());
  std::string text;
  std::string sent;
  for (int i = 0; i < 40; ++i) {
    const std::string part(1 + 97 * i, static_cast<char>('a' + i));
    text += part;
    sent += Seal(&writer, part);
  }
  std::string read;
  for (size_t from = 0, piece = 1; from < sent.size(); from += piece, piece = piece * 5 % 977 + 1) {
    Put(&reader, sent.substr(from, piece));
    // Fewer bytes than a record has: the rest is kept.
    const absl::StatusOr<std::string> some = ReadAll(&reader, 100);
    ASSERT_TRUE(some.ok()) << some.status();
    read += *some;
  }
  EXPECT_TRUE(read == text);
}

TEST(RecordStreamTest, ARecordIsSentWhenItsLastByteIs) {
  RecordWriter writer(Secret());
  std::string text = "text";
  const iovec part = {text.data(), text.size()};
  writer.Seal({&part, 1}, text.size());
  EXPECT_EQ(writer.rest().size(), text.size() + kRecordOverhead);
  EXPECT_EQ(writer.Sent(0), 0u);
  EXPECT_EQ(writer.Sent(20), 0u);
  EXPECT_EQ(writer.rest().size(), 4u);
  EXPECT_EQ(writer.Sent(4), text.size());
}

TEST(RecordStreamTest, NothingOfTheTextIsInTheRecord) {
  RecordWriter writer(Secret());
  const std::string record = Seal(&writer, std::string(1000, 'x'));
  EXPECT_FALSE(absl::StrContains(record, "xxx"));
  // The same text again is another record.
  EXPECT_NE(Seal(&writer, std::string(1000, 'x')).substr(kRecordLengthBytes), record.substr(kRecordLengthBytes));
}

TEST(RecordStreamTest, EveryBitThatChangesIsNoticed) {
  RecordWriter writer(Secret());
  const std::string record = Seal(&writer, "a text of 20 bytes..");
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string changed = record;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    RecordReader reader(Secret());
    // Where the length has grown, the record is not complete until more has come.
    Put(&reader, changed + std::string(kMostRecordBytes + kRecordOverhead, '\0'));
    const absl::StatusOr<std::string> read = ReadAll(&reader);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
    // And nothing comes behind it.
    EXPECT_EQ(ReadAll(&reader).status(), read.status());
    EXPECT_TRUE(reader.HasSome());
  }
}

TEST(RecordStreamTest, WhatDoesNotVerifyLeavesNothingInTheReadersMemory) {
  RecordWriter writer(Secret());
  const std::string text = "a text of 20 bytes..";
  const std::string record = Seal(&writer, text);
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string changed = record;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    RecordReader reader(Secret());
    Put(&reader, changed + std::string(kMostRecordBytes + kRecordOverhead, '\0'));
    // With room for all of it, and for a part.
    const size_t most = bit % 2 == 0 ? text.size() + 5 : text.size() - 5;
    std::string memory(most, '?');
    const iovec parts[] = {{memory.data(), 3}, {memory.data() + 3, most - 3}};
    ASSERT_EQ(reader.Read(parts, most).status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
    EXPECT_EQ(memory.find_first_not_of(std::string("\0?", 2)), std::string::npos) << "bit " << bit << ": " << memory;
  }
}

TEST(RecordStreamTest, TheErrorSaysWhichRecordItIs) {
  RecordWriter writer(Secret());
  RecordReader reader(Secret());
  Put(&reader, Seal(&writer, "first"));
  std::string second = Seal(&writer, "second");
  second.back() = static_cast<char>(second.back() ^ 1);
  Put(&reader, second);
  EXPECT_EQ(ReadAll(&reader).status(),
            absl::DataLossError("its record 1, of 6 bytes, does not verify: the bytes were changed on the way, left "
                                "out, or sent twice or in another order"));
}

TEST(RecordStreamTest, ALengthThatNoRecordHasIsRefusedAtOnce) {
  for (const char* length : {"\0\0\0\0", "\1\0\1\0", "\xff\xff\xff\xff"}) {
    RecordReader reader(Secret());
    Put(&reader, std::string(length, 4));
    const absl::Status refused = ReadAll(&reader).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(refused.message(), "its record 0 says that it has ")) << refused;
  }
}

TEST(RecordStreamTest, ARecordThatIsCutShortGivesNothing) {
  RecordWriter writer(Secret());
  const std::string record = Seal(&writer, "some text");
  for (size_t size = 0; size < record.size(); ++size) {
    RecordReader reader(Secret());
    Put(&reader, record.substr(0, size));
    const absl::StatusOr<std::string> read = ReadAll(&reader);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, "");
    EXPECT_FALSE(reader.HasSome());
    EXPECT_EQ(reader.held(), size);
  }
}

TEST(RecordStreamTest, OrderRepetitionsAndGapsAreNoticed) {
  RecordWriter writer(Secret());
  std::vector<std::string> records;
  for (const char* text : {"one", "two", "three"}) records.push_back(Seal(&writer, text));
  const std::string cases[] = {records[1] + records[0], records[0] + records[0], records[0] + records[2], records[2]};
  for (const std::string& bytes : cases) {
    RecordReader reader(Secret());
    Put(&reader, bytes);
    EXPECT_EQ(ReadAll(&reader).status().code(), absl::StatusCode::kDataLoss);
  }
  RecordReader reader(Secret());
  Put(&reader, records[0] + records[1] + records[2]);
  EXPECT_EQ(*ReadAll(&reader), "onetwothree");
}

TEST(RecordStreamTest, AnotherSecretOpensNothing) {
  RecordWriter writer(Secret('a'));
  RecordReader reader(Secret('b'));
  Put(&reader, Seal(&writer, "text"));
  EXPECT_EQ(ReadAll(&reader).status().code(), absl::StatusCode::kDataLoss);
}

TEST(RecordStreamTest, KeysFollowEachOther) {
  constexpr uint64_t kPerKey = 3;
  RecordWriter writer(Secret(), kPerKey);
  RecordWriter never_changes(Secret());
  RecordReader reader(Secret(), kPerKey);
  for (uint64_t i = 0; i < 3 * kPerKey; ++i) {
    const std::string record = Seal(&writer, absl::StrCat("text ", i));
    // The first key's records are the same.
    EXPECT_EQ(record == Seal(&never_changes, absl::StrCat("text ", i)), i < kPerKey) << i;
    Put(&reader, record);
    const absl::StatusOr<std::string> read = ReadAll(&reader);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, absl::StrCat("text ", i));
  }
}

}  // namespace
}  // namespace farandole
