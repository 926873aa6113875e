/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/encode: function names shortened as people say them. For tables only: files and
 * JSON have full names. */
#ifndef MEMTRACE_ENCODE_FOLD_H
#define MEMTRACE_ENCODE_FOLD_H

/* A copy of a function's name without the parts that only the compiler needs; NULL: no memory.
 *
 *   template and generic arguments   f<int>::g<char>, f::<u8>, Vec<T,A>
 *					->  f<..>::g<..>, f<..>, Vec<..>
 *				      main.Map[go.shape.int_0]  ->  main.Map[...], as Go says it
 *   the standard's own short names   std::__cxx11::basic_string<char, ...>::append
 *					->  std::string::append
 *				      std::collections::hash::map::HashMap<K,V>::insert
 *					->  HashMap<..>::insert
 *   its constructors		      std::vector<int, ...>::vector  ->  std::vector<..>
 *   inline namespaces, ABI tags      std::__1::map<...>::f[abi:cxx11]  ->  std::map<..>::f
 *   Rust's qualified paths	      <app::Cache<T> as core::ops::Drop>::drop
 *					->  app::Cache<..>::drop
 *				      <T as alloc::string::ToString>::to_string
 *					->  alloc::string::ToString::to_string
 *   and hashes			      app::main::h0123456789abcdef  ->  app::main
 *
 * Short arguments are folded, too: --tree adds up the stacks that begin with the same folded name,
 * so f<int> and f<long> are one function in its output. If the brackets of a name do not match, the
 * name is not a template's. Such a name, and all names that are not listed above, are copied
 * unchanged. */
char *fold_name(const char *name);

#endif
