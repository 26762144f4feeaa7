/* SPDX-License-Identifier: Apache-2.0 */
#include "nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#define NESTED(type) ((type) | NLA_F_NESTED)

/* Where the addresses of an IPv4 header are. */
enum { SOURCE_AT = 12, DESTINATION_AT = 16, ADDRESS_BYTES = 4 };

/* ---- bytes ---- */

static void *take(csn_nft *n, size_t len)
{
    size_t padded = NLA_ALIGN(len);

    if (n->error < 0 || padded > sizeof(n->data) - n->len) {
        n->error = -EMSGSIZE;
        return NULL;
    }
    void *at = n->data + n->len;
    memset(at, 0, padded);
    n->len += padded;
    return at;
}

static void put(csn_nft *n, uint16_t type, const void *data, size_t len)
{
    struct nlattr *attr = take(n, NLA_HDRLEN + len);

    if (!attr)
        return;
    *attr = (struct nlattr){ (uint16_t) (NLA_HDRLEN + len), type };
    memcpy((char *) attr + NLA_HDRLEN, data, len);
}

static void put_text(csn_nft *n, uint16_t type, const char *text)
{
    put(n, type, text, strlen(text) + 1);
}

static void put_u32(csn_nft *n, uint16_t type, uint32_t value)
{
    const uint32_t wire = htonl(value);

    put(n, type, &wire, sizeof(wire));
}

static struct nlattr *nest(csn_nft *n, uint16_t type)
{
    struct nlattr *attr = take(n, NLA_HDRLEN);

    if (attr)
        attr->nla_type = NESTED(type);
    return attr;
}

static void end_nest(csn_nft *n, struct nlattr *attr)
{
    if (n->error == 0)
        attr->nla_len = (uint16_t) (n->data + n->len - (char *) attr);
}

static void begin_message(csn_nft *n, uint16_t type, uint8_t family, uint16_t resource,
                          uint16_t flags)
{
    struct {
        struct nlmsghdr header;
        struct nfgenmsg body;
    } *m = take(n, sizeof(*m));

    if (!m)
        return;
    m->header.nlmsg_type = type;
    m->header.nlmsg_flags = (uint16_t) (NLM_F_REQUEST | flags);
    m->body = (struct nfgenmsg){ family, NFNETLINK_V0, htons(resource) };
    n->message = &m->header;
}

static void end_message(csn_nft *n)
{
    if (n->error == 0)
        n->message->nlmsg_len = (uint32_t) (n->data + n->len - (char *) n->message);
}

static void begin_nft(csn_nft *n, uint16_t what, uint16_t flags)
{
    begin_message(n, (uint16_t) (NFNL_SUBSYS_NFTABLES << 8 | what), NFPROTO_INET, 0,
                  (uint16_t) (NLM_F_CREATE | flags));
}

/* ---- tables and chains ---- */

void csn_nft_begin(csn_nft *n, const char *table)
{
    n->len = 0;
    n->error = 0;
    begin_message(n, NFNL_MSG_BATCH_BEGIN, AF_UNSPEC, NFNL_SUBSYS_NFTABLES, 0);
    end_message(n);
    begin_nft(n, NFT_MSG_NEWTABLE, NLM_F_EXCL);
    put_text(n, NFTA_TABLE_NAME, table);
    end_message(n);
}

static uint32_t code_of(csn_nft_verdict verdict)
{
    return verdict == CSN_NFT_ACCEPT ? NF_ACCEPT : NF_DROP;
}

void csn_nft_chain(csn_nft *n, const char *table, const char *chain, bool is_output,
                   csn_nft_verdict policy)
{
    begin_nft(n, NFT_MSG_NEWCHAIN, NLM_F_EXCL);
    put_text(n, NFTA_CHAIN_TABLE, table);
    put_text(n, NFTA_CHAIN_NAME, chain);
    put_text(n, NFTA_CHAIN_TYPE, "filter");
    struct nlattr *hook = nest(n, NFTA_CHAIN_HOOK);
    put_u32(n, NFTA_HOOK_HOOKNUM, is_output ? NF_INET_LOCAL_OUT : NF_INET_LOCAL_IN);
    put_u32(n, NFTA_HOOK_PRIORITY, 0);
    end_nest(n, hook);
    put_u32(n, NFTA_CHAIN_POLICY, code_of(policy));
    end_message(n);
}

/* ---- rules ---- */

typedef struct expression {
    struct nlattr *element, *data;
} expression;

static expression begin_expression(csn_nft *n, const char *name)
{
    expression e;

    e.element = nest(n, NFTA_LIST_ELEM);
    put_text(n, NFTA_EXPR_NAME, name);
    e.data = nest(n, NFTA_EXPR_DATA);
    return e;
}

static void end_expression(csn_nft *n, expression e)
{
    end_nest(n, e.data);
    end_nest(n, e.element);
}

static void put_value(csn_nft *n, uint16_t type, const void *value, size_t len)
{
    struct nlattr *data = nest(n, type);

    put(n, NFTA_DATA_VALUE, value, len);
    end_nest(n, data);
}

/* What the register holds has to be (or not to be) this. */
static void compare(csn_nft *n, uint32_t how, const void *value, size_t len)
{
    expression e = begin_expression(n, "cmp");

    put_u32(n, NFTA_CMP_SREG, NFT_REG_1);
    put_u32(n, NFTA_CMP_OP, how);
    put_value(n, NFTA_CMP_DATA, value, len);
    end_expression(n, e);
}

static void load_meta(csn_nft *n, uint32_t key)
{
    expression e = begin_expression(n, "meta");

    put_u32(n, NFTA_META_KEY, key);
    put_u32(n, NFTA_META_DREG, NFT_REG_1);
    end_expression(n, e);
}

static void load_header(csn_nft *n, uint32_t at)
{
    expression e = begin_expression(n, "payload");

    put_u32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
    put_u32(n, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
    put_u32(n, NFTA_PAYLOAD_OFFSET, at);
    put_u32(n, NFTA_PAYLOAD_LEN, ADDRESS_BYTES);
    end_expression(n, e);
}

static void load_next_hop(csn_nft *n)
{
    expression e = begin_expression(n, "rt");

    put_u32(n, NFTA_RT_KEY, NFT_RT_NEXTHOP4);
    put_u32(n, NFTA_RT_DREG, NFT_REG_1);
    end_expression(n, e);
}

static void apply_mask(csn_nft *n, uint32_t mask)
{
    static const uint8_t nothing[ADDRESS_BYTES];
    const uint32_t wire = htonl(mask);
    expression e = begin_expression(n, "bitwise");

    put_u32(n, NFTA_BITWISE_SREG, NFT_REG_1);
    put_u32(n, NFTA_BITWISE_DREG, NFT_REG_1);
    put_u32(n, NFTA_BITWISE_LEN, ADDRESS_BYTES);
    put_value(n, NFTA_BITWISE_MASK, &wire, sizeof(wire));
    put_value(n, NFTA_BITWISE_XOR, nothing, sizeof(nothing));
    end_expression(n, e);
}

void csn_nft_rule_begin(csn_nft *n, const char *table, const char *chain)
{
    begin_nft(n, NFT_MSG_NEWRULE, NLM_F_APPEND);
    put_text(n, NFTA_RULE_TABLE, table);
    put_text(n, NFTA_RULE_CHAIN, chain);
    n->rule_at = n->len;
    (void) nest(n, NFTA_RULE_EXPRESSIONS); /* found again by its place */
}

void csn_nft_if_interface(csn_nft *n, bool is_output, uint32_t index)
{
    load_meta(n, is_output ? NFT_META_OIF : NFT_META_IIF);
    compare(n, NFT_CMP_EQ, &index, sizeof(index)); /* in the machine's order */
}

void csn_nft_if_not_ipv4(csn_nft *n)
{
    const uint8_t family = NFPROTO_IPV4;

    load_meta(n, NFT_META_NFPROTO);
    compare(n, NFT_CMP_NEQ, &family, sizeof(family));
}

void csn_nft_if_ipv4(csn_nft *n, csn_nft_address which, const uint8_t bytes[4], uint8_t prefix_len)
{
    const uint32_t mask = prefix_len == 0 ? 0 : ~UINT32_C(0) << (32 - prefix_len);
    uint32_t address;

    memcpy(&address, bytes, sizeof(address));
    address &= htonl(mask);
    if (which == CSN_NFT_NEXT_HOP)
        load_next_hop(n);
    else
        load_header(n, which == CSN_NFT_SOURCE ? SOURCE_AT : DESTINATION_AT);
    if (prefix_len < 32)
        apply_mask(n, mask);
    compare(n, NFT_CMP_EQ, &address, sizeof(address));
}

static void put_verdict(csn_nft *n, uint32_t code)
{
    expression e = begin_expression(n, "immediate");

    put_u32(n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    struct nlattr *data = nest(n, NFTA_IMMEDIATE_DATA), *verdict = nest(n, NFTA_DATA_VERDICT);
    put_u32(n, NFTA_VERDICT_CODE, code);
    end_nest(n, verdict);
    end_nest(n, data);
    end_expression(n, e);
}

static void put_reject(csn_nft *n)
{
    const uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
    expression e = begin_expression(n, "reject");

    put_u32(n, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
    put(n, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
    end_expression(n, e);
}

void csn_nft_rule_end(csn_nft *n, csn_nft_verdict verdict)
{
    if (verdict == CSN_NFT_REJECT)
        put_reject(n);
    else
        put_verdict(n, code_of(verdict));
    if (n->error == 0)
        end_nest(n, (struct nlattr *) (void *) (n->data + n->rule_at));
    end_message(n);
}

/* ---- the end ---- */

int csn_nft_commit(csn_nft *n, csn_netlink *nl)
{
    if (n->error == 0)
        n->message->nlmsg_flags |= NLM_F_ACK; /* of the last rule; a refusal comes before it */
    begin_message(n, NFNL_MSG_BATCH_END, AF_UNSPEC, NFNL_SUBSYS_NFTABLES, 0);
    end_message(n);
    return n->error < 0 ? n->error : csn_netlink_batch(nl, n->data, n->len);
}
