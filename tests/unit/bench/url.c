/* url.c - what is a URL to load, and what is refused. */
#include "bench/client/url.h"

#include "tests/unit/test.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static void test_good(void **state) {
    static const struct {
        const char *text, *host, *port, *path, *authority;
    } cases[] = {
        {"http://localhost:8080", "localhost", "8080", "", "localhost:8080"},
        {"http://127.0.0.1:1/a/b?c=d", "127.0.0.1", "1", "/a/b?c=d", "127.0.0.1:1"},
        {"http://example", "example", "80", "", "example"},
        {"http://example/", "example", "80", "/", "example"},
        {"http://example?x", "example", "80", "/?x", "example"},
        {"http://[::1]:65535/p", "::1", "65535", "/p", "[::1]:65535"},
        {"http://[::1]", "::1", "80", "", "[::1]"},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct url u;
        struct error err;
        assert_int_equal(url_parse(&u, cases[i].text, &err), STATUS_OK);
        assert_string_equal(u.host, cases[i].host);
        assert_string_equal(u.port, cases[i].port);
        assert_string_equal(u.path, cases[i].path);
        assert_string_equal(u.authority, cases[i].authority);
    }
}
static void test_bad(void **state) {
    static const char *const texts[] = {
        "",
        "localhost:8080",
        "https://localhost",
        "ftp://x",
        "http://",
        "http:///path",
        "http://:80",
        "http://host:",
        "http://host:0",
        "http://host:65536",
        "http://host:8o",
        "http://host:123456",
        "http://user@host",
        "http://ho st",
        "http://host/a b",
        "http://host/a#b",
        "http://host/\x80",
        "http://[::1",
        "http://[]:80",
        "http://[::g]:80",
        "http://[::1]x",
    };
    char text[2000];
    struct url u;
    struct error err;
    (void)state;
    for (size_t i = 0; i < N_ITEMS(texts); i++) {
        assert_int_equal(url_parse(&u, texts[i], &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "http://HOST:PORT/PATH"));
    }
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "http://", 7);
    assert_int_equal(url_parse(&u, text, &err), STATUS_INVALID);
    text[20] = '/';
    assert_int_equal(url_parse(&u, text, &err), STATUS_INVALID);
}
static void test_resolve(void **state) {
    struct url u;
    struct address a;
    struct error err;
    (void)state;
    assert_int_equal(url_parse(&u, "http://127.0.0.1:80", &err), STATUS_OK);
    assert_int_equal(url_resolve(&a, &u, &err), STATUS_OK);
    assert_int_equal(a.family, AF_INET);
    assert_int_equal(url_parse(&u, "http://no-such-host.invalid:80", &err), STATUS_OK);
    assert_int_equal(url_resolve(&a, &u, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}
/* A name with two addresses, of which a server listens on the second. */
static void test_choose(void **state) {
    struct sockaddr_in listening = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(listening);
    struct address a;
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&listening, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&listening, &len), 0);
    struct sockaddr_in other = listening; // 127.0.0.2, where nobody does
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    struct addrinfo second = {.ai_family = AF_INET,
                              .ai_addr = (struct sockaddr *)&listening,
                              .ai_addrlen = sizeof(listening)};
    struct addrinfo first = {.ai_family = AF_INET,
                             .ai_addr = (struct sockaddr *)&other,
                             .ai_addrlen = sizeof(other),
                             .ai_next = &second};
    url_choose(&a, &first);
    assert_memory_equal(&a.storage, &listening, sizeof(listening));
    close(fd);
    url_choose(&a, &first); // nobody listens: the first
    assert_memory_equal(&a.storage, &other, sizeof(other));
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
