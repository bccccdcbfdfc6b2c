// Delta: trains neural networks in less memory. The one header an embedding program includes.
#ifndef DELTA_DELTA_H_
#define DELTA_DELTA_H_

#include <delta/allocator.h>
#include <delta/checkpoint.h>
#include <delta/log.h>
#include <delta/plan.h>
#include <delta/session.h>
#include <delta/status.h>
#include <delta/train.h>
#include <delta/version.h>

#endif // DELTA_DELTA_H_
