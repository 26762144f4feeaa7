/* What the sandboxes' records say of images, layers and volumes. */
#ifndef CSN_IMAGE_BOXES_H
#define CSN_IMAGE_BOXES_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/error.h>

/* CSN_OK, *ret_n: how many boxes name this image / this volume. A box without a record counts for none; one whose record
 * can't be understood is an error, since nothing may be removed on a guess. */
int csn_boxes_with_image(int state_fd, const char *image, uint32_t *ret_n, csn_error *err);
int csn_boxes_with_volume(int state_fd, const char *volume, uint32_t *ret_n, csn_error *err);
int csn_boxes_with_layer(int state_fd, const char *layer, uint32_t *ret_n, csn_error *err);

#endif
