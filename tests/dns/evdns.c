/* Looks names up as tor's exits do: libevent's evdns with the name servers of /etc/resolv.conf and letters of random case. */
#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <stdio.h>

static void print_answer(int result, char type, int count, int ttl, void *addresses, void *name)
{
    printf("%s: result %d", (const char *)name, result);
    if (result == DNS_ERR_NONE && type == DNS_PTR)
        printf(" name %s", *(char **)addresses);
    else if (result == DNS_ERR_NONE)
        for (int i = 0; i < count; i++) {
            char text[INET6_ADDRSTRLEN];
            int family = type == DNS_IPv6_AAAA ? AF_INET6 : AF_INET;
            int size = type == DNS_IPv6_AAAA ? 16 : 4;

            printf(" address %s", inet_ntop(family, (char *)addresses + i * size, text, sizeof text));
        }
    if (result == DNS_ERR_NONE)
        printf(" ttl %d", ttl);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct event_base *base = event_base_new();
    struct evdns_base *dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);

    if (evdns_base_resolv_conf_parse(dns, DNS_OPTIONS_ALL, "/etc/resolv.conf") != 0)
        return 1;
    evdns_base_set_option(dns, "randomize-case:", "1");
    evdns_base_set_option(dns, "max-inflight:", "8192");
    for (int i = 1; i < argc; i++) {
        struct in_addr address;
        struct in6_addr address6;

        if (inet_pton(AF_INET6, argv[i], &address6) == 1)
            evdns_base_resolve_reverse_ipv6(dns, &address6, 0, print_answer, argv[i]);
        else if (inet_pton(AF_INET, argv[i], &address) == 1)
            evdns_base_resolve_reverse(dns, &address, 0, print_answer, argv[i]);
        else
            evdns_base_resolve_ipv4(dns, argv[i], DNS_QUERY_NO_SEARCH, print_answer, argv[i]);
        evdns_base_resolve_ipv6(dns, argv[i], DNS_QUERY_NO_SEARCH, print_answer, argv[i]);
    }
    event_base_dispatch(base);
    return 0;
}
