/* token_kind - the kinds of tokens of a vocabulary, with the numbers of SentencePiece and GGUF
 * files.
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_FILES_TOKEN_KIND_H
#define MR_CODEC_TOKENIZER_FILES_TOKEN_KIND_H

enum mr_token_kind {
    MR_TOKEN_NORMAL,
    MR_TOKEN_CONTROL,      /* begin, end, roles: never part of a user's text */
    MR_TOKEN_USER_DEFINED, /* always one token wherever its text occurs */
    MR_TOKEN_BYTE,         /* <0xHH>: one byte of a character that has no token */
    MR_TOKEN_UNUSED        /* in the vocabulary, but never the token of a text */
};

#endif
