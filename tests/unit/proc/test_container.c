// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "proc/container.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OUTER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD   "2f9c0a1e-7d44-4a1b-9b1e-0c5d3e6f7a8b"
#define POD_  "2f9c0a1e_7d44_4a1b_9b1e_0c5d3e6f7a8b"

#define HASH "8b2d4f6a8c0e1f3a5b7d9e0c2a4f6b8d"

/* Names of groups as kubelet, containerd, CRI-O, Docker and podman make them. */
static void test_paths(void **state)
{
	static const struct {
		const char *path, *id, *pod;
	} cases[] = {
		{"/kubepods/burstable/pod" POD "/" ID, ID, POD},
		{"/kubepods/pod" POD "/" ID "\n", ID, POD},
		{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" POD_
		 ".slice/cri-containerd-" ID ".scope",
		 ID, POD},
		{"/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID ".scope/container", ID, POD},
		/* a static pod, such as the API server of kubeadm */
		{"/kubepods/burstable/pod" HASH "/" ID, ID, HASH},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH
		 ".slice/cri-containerd-" ID ".scope",
		 ID, HASH},
		{"/docker/" ID, ID, ""},
		{"/system.slice/docker-" ID ".scope", ID, ""},
		{"/machine.slice/libpod-" ID ".scope/container", ID, ""},
		/* a node of the tool kind, which is a container of Docker, seen from the host */
		{"/system.slice/docker-" OUTER ".scope/kubelet.slice/kubelet-kubepods.slice/"
		 "kubelet-kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope",
		 ID, POD},
		{"/docker/" OUTER "/kubelet/kubepods/pod" POD, OUTER, ""}, /* only a pod's group */
		{"/docker/" OUTER "/docker/" ID, OUTER, ""},
		{"/", "", ""},
		{"", "", ""},
		{"/system.slice/redis.service", "", ""},
		{"/kubepods/pod" POD, "", ""},				/* the pod's own group */
		{"/docker/" ID "0", "", ""},				/* 65 digits */
		{"/docker/0123456789abcdef", "", ""},			/* too few */
		{"/a/pod" HASH "0/" ID, ID, ""},			/* 33 digits */
		{"/a/pod7d44-4a1b-9b1e-0c5d3e6f7a8b00000/" ID, ID, ""}, /* 32, with dashes */
		{"/a/pod" POD "0/" ID, ID, ""},				/* no uid */
		{"/pod<b>\"\\\n/pods/pod/" ID "\xff", ID, ""},		/* any other text */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct container got;

		memset(&got, 'x', sizeof(got));
		assert_int_equal(container__parse(cases[i].path, &got), *cases[i].id != '\0');
		assert_string_equal(got.id, cases[i].id);
		assert_string_equal(got.pod, cases[i].pod);
	}
}

static void test_process(void **state)
{
	struct container got;

	(void)state;
	container__of(getpid(), &got); /* the test may run in a container */
	assert_true(strlen(got.id) == 0 || strlen(got.id) == CONTAINER_ID);
	memset(&got, 'x', sizeof(got));
	assert_false(container__of(0x7fffffff, &got));
	assert_string_equal(got.id, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
