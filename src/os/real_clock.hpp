// The kernel's clocks.
#pragma once

#include <string>

#include "core/clock.hpp"

namespace os {

class RealClock : public core::Clock {
public:
  core::Instant now() const override;
  core::Instant machine_now() const override;
  core::WallTime wall() const override;
  const std::string& boot_id() const override;

private:
  mutable std::string m_boot_id;
  mutable bool m_offset_known = false;
  mutable core::BootTime::duration m_offset{0};
};

}  // namespace os
