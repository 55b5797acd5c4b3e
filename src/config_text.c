/* config_text.c - the kinds of values that are text: files, names, addresses, pins.
 *
 * Every read() leaves the field alone when it fails. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_schema.h"
#include "dns/name.h"

static bool store_text(const char *text, void *field, char *why, size_t why_size)
{
    if (strlen(text) >= OPTION_TEXT_SIZE)
        return option_refuse(why, why_size, "is too long");
    char *copy = strdup(text);
    if (copy == NULL)
        return option_refuse(why, why_size, "does not fit in memory");
    memcpy(field, &copy, sizeof(copy));
    return true;
}

static char *text_of(const void *field)
{
    char *text;

    memcpy(&text, field, sizeof(text));
    return text;
}

static void text_release(void *field)
{
    static const char *const unset = NULL;

    free(text_of(field));
    memcpy(field, &unset, sizeof(unset));
}

static bool text_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    const char *s = text_of(field);

    (void)o;
    if (s != NULL)
        snprintf(text, text_size, "%s", s);
    return s != NULL;
}

static bool text_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    (void)o;
    if (*text == '\0')
        return option_refuse(why, why_size, "is empty");
    return store_text(text, field, why, why_size);
}

const struct option_kind kind_text = {"text", sizeof(char *), text_read, text_write,
                                      text_release};

/* What goes into a header field must not end it. */
static bool header_read(const struct option *o, const char *text, void *field, char *why,
                        size_t why_size)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~')
            return option_refuse(why, why_size,
                                 "has characters that a header field may not have");
    }
    return text_read(o, text, field, why, why_size);
}

const struct option_kind kind_header = {"text", sizeof(char *), header_read, text_write,
                                        text_release};

/* NULL when the file can be read, else why not. */
static const char *file_fault(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return strerror(errno);
    const char *fault = NULL;
    if (fstat(fd, &st) != 0)
        fault = strerror(errno);
    else if (S_ISDIR(st.st_mode))
        fault = strerror(EISDIR);
    close(fd);
    return fault;
}

static bool file_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    const char *fault = file_fault(text);

    if (fault != NULL) {
        snprintf(why, why_size, "cannot be read: %s", fault);
        return false;
    }
    return text_read(o, text, field, why, why_size);
}

const struct option_kind kind_file = {"a file", sizeof(char *), file_read, text_write,
                                      text_release};

/* A file of ours, which need not be there yet; its folder must. */
static bool saved_file_read(const struct option *o, const char *text, void *field, char *why,
                            size_t why_size)
{
    struct stat st;
    char *copy = strdup(text);

    if (copy == NULL)
        return option_refuse(why, why_size, "does not fit in memory");
    bool there = stat(dirname(copy), &st) == 0;
    int error = there && !S_ISDIR(st.st_mode) ? ENOTDIR : errno;
    free(copy);
    if (!there || !S_ISDIR(st.st_mode)) {
        snprintf(why, why_size, "has no folder to be in: %s", strerror(error));
        return false;
    }
    return text_read(o, text, field, why, why_size);
}

const struct option_kind kind_saved_file = {"a file to be written", sizeof(char *),
                                            saved_file_read, text_write, text_release};

/* Letters, digits, hyphens, underscores and dots, and a wire name in all. */
static bool is_host_name(const char *text)
{
    uint8_t wire[DNS_NAME_MAX];

    for (const char *p = text; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("-_.", *p) == NULL)
            return false;
    }
    return name_from_text(wire, text) > 1;
}

static bool host_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    if (!is_host_name(text))
        return option_refuse(why, why_size, "is not a host name");
    return text_read(o, text, field, why, why_size);
}

const struct option_kind kind_host = {"a host name", sizeof(char *), host_read, text_write,
                                      text_release};

static bool url_path_read(const struct option *o, const char *text, void *field, char *why,
                          size_t why_size)
{
    if (text[0] != '/')
        return option_refuse(why, why_size, "does not begin with /");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || strchr("?#\"%{}", *p) != NULL)
            return option_refuse(why, why_size, "has characters that a path may not have");
    }
    return text_read(o, text, field, why, why_size);
}

const struct option_kind kind_url_path = {"a path such as /dns-query", sizeof(char *),
                                          url_path_read, text_write, text_release};

/* ---- addresses and names ---- */

static bool address_read(const struct option *o, const char *text, void *field, char *why,
                         size_t why_size)
{
    struct addr a;

    if (!addr_parse(&a, text, o->port))
        return option_refuse(why, why_size,
                             "is not an address with a port such as 127.0.0.1:53");
    memcpy(field, &a, sizeof(a));
    return true;
}

static bool address_write(const struct option *o, const void *field, char *text,
                          size_t text_size)
{
    char formatted[ADDR_TEXT_SIZE];

    (void)o;
    snprintf(text, text_size, "%s", addr_format(field, formatted));
    return true;
}

const struct option_kind kind_address = {"an address with a port", sizeof(struct addr),
                                         address_read, address_write, NULL};

static bool cidr_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    struct cidr c;

    (void)o;
    if (!cidr_parse(&c, text))
        return option_refuse(why, why_size, "is not an address range such as 192.0.2.0/24");
    memcpy(field, &c, sizeof(c));
    return true;
}

static bool cidr_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    char formatted[CIDR_TEXT_SIZE];

    (void)o;
    snprintf(text, text_size, "%s", cidr_format(field, formatted));
    return true;
}

const struct option_kind kind_cidr = {"an address range", sizeof(struct cidr), cidr_read,
                                      cidr_write, NULL};

static bool domain_read(const struct option *o, const char *text, void *field, char *why,
                        size_t why_size)
{
    struct config_domain d = {.negated = text[0] == '!'};
    uint8_t wire[DNS_NAME_MAX];

    (void)o;
    d.name_len = name_from_text(wire, text + (d.negated ? 1 : 0));
    if (d.name_len == 0)
        return option_refuse(why, why_size, "is not a domain name");
    d.name = malloc(d.name_len);
    if (d.name == NULL)
        return option_refuse(why, why_size, "does not fit in memory");
    name_lower(d.name, wire, d.name_len);
    memcpy(field, &d, sizeof(d));
    return true;
}

static bool domain_write(const struct option *o, const void *field, char *text,
                         size_t text_size)
{
    const struct config_domain *d = field;
    char name[NAME_TEXT_SIZE];

    (void)o;
    snprintf(text, text_size, "%s%s", d->negated ? "!" : "",
             name_to_text(d->name, d->name_len, name));
    return true;
}

static void domain_release(void *field)
{
    struct config_domain *d = field;

    free(d->name);
    d->name = NULL;
}

const struct option_kind kind_domain = {"a domain name", sizeof(struct config_domain),
                                        domain_read, domain_write, domain_release};

/* ---- pins: sha256/BASE64 of a SubjectPublicKeyInfo (RFC 7858 appendix A) ---- */

static const char base64_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char pin_prefix[] = "sha256/";
enum { PIN_SIZE = 32, PIN_LETTERS = 43 };

/* 32 octets are 43 letters, the last of which has two bits to spare, and one '='. */
static bool pin_read(const struct option *o, const char *text, void *field, char *why,
                     size_t why_size)
{
    static const char wanted[] = "is not sha256/ and 32 octets in base64";
    uint8_t pin[PIN_SIZE];
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t len = 0;

    (void)o;
    if (strncmp(text, pin_prefix, strlen(pin_prefix)) != 0)
        return option_refuse(why, why_size, wanted);
    text += strlen(pin_prefix);
    if (strspn(text, base64_letters) != PIN_LETTERS || strcmp(text + PIN_LETTERS, "=") != 0)
        return option_refuse(why, why_size, wanted);
    for (size_t i = 0; i < PIN_LETTERS; i++) {
        bits = bits << 6 | (uint32_t)(strchr(base64_letters, text[i]) - base64_letters);
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            pin[len++] = (uint8_t)(bits >> n_bits);
        }
    }
    if ((bits & 3) != 0)
        return option_refuse(why, why_size, wanted);
    memcpy(field, pin, PIN_SIZE);
    return true;
}

static bool pin_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    const uint8_t *pin = field;
    char letters[PIN_LETTERS + 1];

    (void)o;
    for (size_t i = 0; i < PIN_LETTERS; i++) {
        size_t at = 6 * i / 8;
        unsigned window = (unsigned)pin[at] << 8 | (at + 1 < PIN_SIZE ? pin[at + 1] : 0u);
        letters[i] = base64_letters[window >> (10 - 6 * i % 8) & 63];
    }
    letters[PIN_LETTERS] = '\0';
    snprintf(text, text_size, "%s%s=", pin_prefix, letters);
    return true;
}

const struct option_kind kind_pin = {"sha256/BASE64", PIN_SIZE, pin_read, pin_write, NULL};
