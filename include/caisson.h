/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_H
#define CAISSON_H

#include <caisson/arena.h>
#include <caisson/config.h>
#include <caisson/engine.h>
#include <caisson/error.h>
#include <caisson/files.h>
#include <caisson/image.h>
#include <caisson/once.h>
#include <caisson/op.h>
#include <caisson/process.h>
#include <caisson/receipt.h>
#include <caisson/sandbox.h>
#include <caisson/volume.h>

#endif
