// SPDX-License-Identifier: BSD-2-Clause
/* Requests of Pyroscope's push API: api/push/v1/push.proto. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/pprof_parts.h"
#include "encode/text.h"

enum push_request_field { PUSH_REQUEST_SERIES = 1 };
enum series_field { SERIES_LABELS = 1, SERIES_SAMPLES };
enum label_field { LABEL_NAME = 1, LABEL_VALUE };
enum sample_field { SAMPLE_PROFILE = 1, SAMPLE_ID };

int encode_pyroscope(const struct pyroscope_push *push, struct sink *sink)
{
	struct message request = {}, series = {}, part = {};
	int rc = 0;

	for (size_t i = 0; i < push->n_labels && !rc; i++) {
		_cleanup_free_ char *value = text_printable(push->labels[i].value);

		rc = value ? 0 : -ENOMEM;
		part.len = 0;
		message__bytes(&part, LABEL_NAME, push->labels[i].name,
			       strlen(push->labels[i].name));
		message__bytes(&part, LABEL_VALUE, value, value ? strlen(value) : 0);
		message__bytes(&series, SERIES_LABELS, part.bytes, part.len);
	}
	part.len = 0;
	message__bytes(&part, SAMPLE_PROFILE, push->profile, push->size);
	message__bytes(&part, SAMPLE_ID, push->id, strlen(push->id));
	message__bytes(&series, SERIES_SAMPLES, part.bytes, part.len);
	message__bytes(&request, PUSH_REQUEST_SERIES, series.bytes, series.len);
	if (request.failed || series.failed || part.failed)
		rc = -ENOMEM;
	if (!rc)
		rc = sink__write(sink, request.bytes, request.len);
	free(request.bytes);
	free(series.bytes);
	free(part.bytes);
	return rc;
}
