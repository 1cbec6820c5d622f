#include "server/job/rules/actions.h"

namespace farandole {

ReplyMessage::ReplyMessage() = default;
ReplyMessage::ReplyMessage(const ReplyMessage& other) = default;
ReplyMessage::ReplyMessage(ReplyMessage&& other) noexcept = default;
ReplyMessage& ReplyMessage::operator=(const ReplyMessage& other) = default;
ReplyMessage& ReplyMessage::operator=(ReplyMessage&& other) noexcept = default;
ReplyMessage::~ReplyMessage() = default;

}  // namespace farandole
