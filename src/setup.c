/* setup.c - see setup.h. */
#include "setup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "lookup.h"

enum {
    HOST_SIZE = 256,
    URL_SIZE = 1024,
    LOOKUP_MS = 2000,
    ADDRESSES_MAX = 8,
    WHY_SIZE = 128,
    UUID_SIZE = 37,
    PORT_DOH = 443,
    PORT_DOT = 853,
    EXIT_USAGE = 2,
};

struct setup {
    char host[HOST_SIZE];
    char url[URL_SIZE];
    uint16_t port, dot_port;
    bool is_address;
    struct addr addresses[ADDRESSES_MAX];
    size_t n_addresses;
    FILE *out;
};

static bool read_host(struct setup *s, const char *text, const struct setup_server *server,
                      FILE *out)
{
    struct addr a;
    char port[16] = "";

    *s = (struct setup){.dot_port = server->dot_port, .out = out};
    if (!lookup_split(text, s->host, sizeof(s->host), &s->port)) {
        fprintf(out, "\"%s\" is no HOST[:PORT]\n", text);
        return false;
    }
    if (s->port == 0)
        s->port = PORT_DOH;
    if (s->port != PORT_DOH)
        snprintf(port, sizeof(port), ":%u", s->port);
    s->is_address = addr_parse(&a, s->host, 0);
    bool v6 = strchr(s->host, ':') != NULL;
    snprintf(s->url, sizeof(s->url), "https://%s%s%s%s%s", v6 ? "[" : "", s->host,
             v6 ? "]" : "", port, server->path);
    return true;
}

/* Where it is not known, there is ADDRESS to be filled in. */
static const char *address(const struct setup *s, size_t i, char *text)
{
    if (i >= s->n_addresses)
        return "ADDRESS";
    return addr_format_ip(&s->addresses[i], text);
}

/* --- the list --------------------------------------------------------------------------------
 */

static void show_android(const struct setup *s)
{
    fputs("\nAndroid 9 and later: Settings, Network & internet, Private DNS,\n"
          "Private DNS provider hostname\n",
          s->out);
    if (s->is_address)
        fputs("  (takes a host name only, not an address)\n", s->out);
    else if (s->dot_port != PORT_DOT)
        fprintf(s->out, "  (takes port 853 only; DoT is on %u)\n", s->dot_port);
    else
        fprintf(s->out, "  %s\n", s->host);
}

static void show_apple(const struct setup *s, const char *text)
{
    fprintf(s->out,
            "\niOS 14, macOS 11 and later: a profile, to be opened on the device\n"
            "  pithd --mobileconfig %s >pith.mobileconfig\n"
            "  openssl smime -sign -nodetach -outform der -signer fullchain.pem \\\n"
            "      -certfile fullchain.pem -inkey privkey.pem -in pith.mobileconfig \\\n"
            "      -out pith.signed.mobileconfig        # if it is to show as verified\n",
            text);
}

static void show_windows(const struct setup *s)
{
    char ip[ADDR_TEXT_SIZE];
    size_t n = s->n_addresses == 0 ? 1 : s->n_addresses;

    fputs("\nWindows 11, Server 2022: PowerShell as administrator, then the address as DNS "
          "server\n",
          s->out);
    for (size_t i = 0; i < n; i++)
        fprintf(s->out,
                "  Add-DnsClientDohServerAddress -ServerAddress '%s' -DohTemplate '%s' "
                "-AllowFallbackToUdp $False -AutoUpgrade $True\n",
                address(s, i, ip), s->url);
}

static void show_browsers(const struct setup *s)
{
    fprintf(
        s->out,
        "\nChrome, Edge, Chromium: Settings, Privacy and security, Security, Use secure DNS,\n"
        "Add custom DNS service provider\n"
        "  %s{?dns}\n"
        "  policy: {\"DnsOverHttpsMode\": \"secure\", \"DnsOverHttpsTemplates\": "
        "\"%s{?dns}\"}\n",
        s->url, s->url);
    fprintf(s->out,
            "\nFirefox: Settings, Privacy & Security, DNS over HTTPS, Max Protection, Custom\n"
            "  %s\n"
            "  policy: {\"policies\": {\"DNSOverHTTPS\": {\"Enabled\": true, \"ProviderURL\": "
            "\"%s\", \"Fallback\": false}}}\n",
            s->url, s->url);
}

static void show_resolved(const struct setup *s)
{
    char ip[ADDR_TEXT_SIZE], port[16] = "";
    size_t n = s->n_addresses == 0 ? 1 : s->n_addresses;

    if (s->dot_port != PORT_DOT)
        snprintf(port, sizeof(port), ":%u", s->dot_port);
    fputs("\nsystemd-resolved: /etc/systemd/resolved.conf.d/pith.conf, then\n"
          "systemctl restart systemd-resolved\n"
          "  [Resolve]\n  DNS=",
          s->out);
    for (size_t i = 0; i < n; i++) {
        const char *text = address(s, i, ip);
        bool brackets = port[0] != '\0' && strchr(text, ':') != NULL;
        fprintf(s->out, "%s%s%s%s%s", i == 0 ? "" : " ", brackets ? "[" : "", text,
                brackets ? "]" : "", port);
        if (!s->is_address)
            fprintf(s->out, "#%s", s->host);
    }
    fputs("\n  DNSOverTLS=yes\n  Domains=~.\n", s->out);
}

static void show_tools(const struct setup *s)
{
    char port[16] = "", dot[16] = "";
    const char *path = strstr(s->url + strlen("https://"), "/");

    if (s->port != PORT_DOH)
        snprintf(port, sizeof(port), "-p %u ", s->port);
    if (s->dot_port != PORT_DOT)
        snprintf(dot, sizeof(dot), "-p %u ", s->dot_port);
    fprintf(s->out, "\ncurl\n  curl --doh-url %s https://example.com/\n", s->url);
    fprintf(s->out,
            "\nkdig\n"
            "  kdig %s@%s +https=%s +tls-ca +tls-hostname=%s example.com\n"
            "  kdig %s@%s +tls +tls-ca +tls-hostname=%s example.com\n",
            port, s->host, path, s->host, dot, s->host, s->host);
}

int setup_show(const char *text, const struct setup_server *server, FILE *out)
{
    struct setup s;
    char why[WHY_SIZE];

    if (!read_host(&s, text, server, out))
        return EXIT_USAGE;
    s.n_addresses =
        lookup_host(s.host, 0, LOOKUP_MS, s.addresses, ADDRESSES_MAX, why, sizeof(why));
    fprintf(out, "DNS over HTTPS  %s\nDNS over TLS    %s, port %u\n", s.url, s.host,
            s.dot_port);
    if (s.n_addresses == 0)
        fprintf(out, "(ADDRESS below is to be filled in: %s)\n", why);
    show_android(&s);
    show_apple(&s, text);
    show_windows(&s);
    show_browsers(&s);
    show_resolved(&s);
    show_tools(&s);
    fprintf(out, "\nIs it well? pithd --check %s\n", text);
    return EXIT_SUCCESS;
}

/* --- the profile -----------------------------------------------------------------------------
 */

/* A version 8 UUID (RFC 9562 5.8): of the text, the same each time. */
static const char *write_uuid(const char *kind, const char *text, char out[UUID_SIZE])
{
    struct hash_key key;
    uint64_t half[2];
    char name[HOST_SIZE + URL_SIZE];
    size_t len = (size_t)snprintf(name, sizeof(name), "pith %s %s", kind, text);

    memset(&key, 0, sizeof(key));
    half[0] = hash_sip(&key, name, len);
    name[0] = 'P';
    half[1] = hash_sip(&key, name, len);
    half[0] = (half[0] & ~0xf000ULL) | 0x8000ULL;
    half[1] = (half[1] & ~(3ULL << 62)) | 2ULL << 62;
    snprintf(out, UUID_SIZE, "%08llX-%04llX-%04llX-%04llX-%012llX",
             (unsigned long long)(half[0] >> 32), (unsigned long long)(half[0] >> 16 & 0xffff),
             (unsigned long long)(half[0] & 0xffff), (unsigned long long)(half[1] >> 48),
             (unsigned long long)(half[1] & 0xffffffffffffULL));
    return out;
}

/* A path may have what XML does not take as it is. */
static void write_xml(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else
            fputc(*text, out);
    }
}

int setup_mobileconfig(const char *text, const struct setup_server *server, FILE *out)
{
    struct setup s;
    char payload[UUID_SIZE], profile[UUID_SIZE];

    if (!read_host(&s, text, server, out))
        return EXIT_USAGE;
    write_uuid("payload", s.url, payload);
    write_uuid("profile", s.url, profile);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" "
          "\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n"
          "<plist version=\"1.0\">\n<dict>\n"
          "  <key>PayloadContent</key>\n  <array>\n    <dict>\n"
          "      <key>DNSSettings</key>\n      <dict>\n"
          "        <key>DNSProtocol</key>\n        <string>HTTPS</string>\n"
          "        <key>ServerURL</key>\n        <string>",
          out);
    write_xml(out, s.url);
    fprintf(
        out,
        "</string>\n      </dict>\n"
        "      <key>PayloadDisplayName</key>\n      <string>DNS over HTTPS by %s</string>\n"
        "      <key>PayloadIdentifier</key>\n"
        "      <string>com.apple.dnsSettings.managed.%s</string>\n"
        "      <key>PayloadType</key>\n      <string>com.apple.dnsSettings.managed</string>\n"
        "      <key>PayloadUUID</key>\n      <string>%s</string>\n"
        "      <key>PayloadVersion</key>\n      <integer>1</integer>\n"
        "      <key>ProhibitDisablement</key>\n      <false/>\n"
        "    </dict>\n  </array>\n",
        s.host, payload, payload);
    fprintf(out,
            "  <key>PayloadDescription</key>\n"
            "  <string>Sends DNS queries to %s by DNS over HTTPS.</string>\n"
            "  <key>PayloadDisplayName</key>\n  <string>DNS: %s</string>\n"
            "  <key>PayloadIdentifier</key>\n  <string>pith.dns.%s</string>\n"
            "  <key>PayloadRemovalDisallowed</key>\n  <false/>\n"
            "  <key>PayloadType</key>\n  <string>Configuration</string>\n"
            "  <key>PayloadUUID</key>\n  <string>%s</string>\n"
            "  <key>PayloadVersion</key>\n  <integer>1</integer>\n"
            "</dict>\n</plist>\n",
            s.host, s.host, profile, profile);
    return EXIT_SUCCESS;
}
