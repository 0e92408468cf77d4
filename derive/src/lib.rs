//! `#[derive(Tree)]` for pullback.
//!
//! A struct or enum becomes a tree of the tensors in its fields. A field marked `#[tree(skip)]` is configuration: it
//! is cloned, and its `Debug` text tells structures apart, so that a compiled function is compiled anew when it changes.

use proc_macro::TokenStream;
use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Generics, Ident, Member, Result, Type,
    parse_macro_input, parse_quote,
};

#[cfg(test)]
mod tests;

/// Implements `Tree` for a struct or enum whose fields are trees. Mark configuration with `#[tree(skip)]`; it must be
/// `Clone` and `Debug`.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(mut input: DeriveInput) -> Result<Tokens> {
    refuse_attributes(&input.attrs)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let text = "a tree owns what it holds, so that a compiled function can keep it: it has no lifetimes";
        return Err(Error::new_spanned(lifetime, text));
    }
    let (parts, visit, rebuild) = match &input.data {
        Data::Struct(data) => {
            let parts = parts(&data.fields)?;
            let (pattern, visits, fields) = (pattern(&parts), visits(&parts), rebuilt(&parts));
            (
                parts,
                quote! { let Self #pattern = self; #visits },
                quote! { let Self #pattern = self; Self #fields },
            )
        }
        Data::Enum(data) => {
            let (mut all, mut visit_arms, mut rebuild_arms) = (Vec::new(), Vec::new(), Vec::new());
            for variant in &data.variants {
                refuse_attributes(&variant.attrs)?;
                let parts = parts(&variant.fields)?;
                let (name, text) = (&variant.ident, variant.ident.unraw().to_string());
                let (pattern, visits, fields) = (pattern(&parts), visits(&parts), rebuilt(&parts));
                visit_arms.push(quote! { Self::#name #pattern => { visitor.fact(&#text); #visits } });
                rebuild_arms.push(quote! { Self::#name #pattern => Self::#name #fields });
                all.extend(parts);
            }
            if data.variants.is_empty() {
                return Err(Error::new_spanned(
                    &input.ident,
                    "an enum without variants has no value to be a tree",
                ));
            }
            (all, quote! { match self { #(#visit_arms)* } }, quote! { match self { #(#rebuild_arms),* } })
        }
        Data::Union(_) => {
            let text = "a union does not know which of its fields is alive; derive Tree for a struct or enum";
            return Err(Error::new_spanned(&input.ident, text));
        }
    };
    add_bounds(&mut input.generics, &parts);
    let name = &input.ident;
    let (impls, types, clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impls ::pullback::tree::Tree for #name #types #clause {
            #[allow(unused_variables)]
            fn visit<'tree>(&'tree self, visitor: &mut dyn ::pullback::tree::Visitor<'tree>) {
                #visit
            }
            #[allow(unused_variables)]
            fn rebuild(
                &self,
                replace: &mut dyn ::core::ops::FnMut(&::pullback::Tensor) -> ::pullback::Tensor,
            ) -> Self {
                #rebuild
            }
        }

        #[automatically_derived]
        impl #impls ::pullback::transform::Codomain for #name #types #clause {
            type Jacobian<PartOfJacobian: ::pullback::tree::Tree> =
                ::std::collections::BTreeMap<::std::string::String, PartOfJacobian>;
            fn jacobian<PartOfJacobian: ::pullback::tree::Tree>(
                &self,
                next: &mut dyn ::core::ops::FnMut() -> PartOfJacobian,
            ) -> Self::Jacobian<PartOfJacobian> {
                ::pullback::transform::by_path(self, next)
            }
        }
    })
}

/// A field.
struct Part {
    member: Member,
    /// What the field is bound to in patterns.
    binding: Ident,
    ty: Type,
    skipped: bool,
}

fn parts(fields: &Fields) -> Result<Vec<Part>> {
    let part = |(i, field): (usize, &Field)| {
        let member = match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(i.into()),
        };
        // What the compiler says of a field's value, it says at its type.
        let binding = format_ident!("part{i}", span = field.ty.span());
        Ok(Part { member, binding, ty: field.ty.clone(), skipped: is_skipped(field)? })
    };
    fields.iter().enumerate().map(part).collect()
}

fn of_trees(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("tree"))
}

/// Types and variants take no options.
fn refuse_attributes(attributes: &[Attribute]) -> Result<()> {
    match of_trees(attributes).next() {
        Some(attribute) => Err(Error::new_spanned(attribute, "#[tree(skip)] belongs on a field")),
        None => Ok(()),
    }
}

fn is_skipped(field: &Field) -> Result<bool> {
    let mut skipped = false;
    for attribute in of_trees(&field.attrs) {
        match attribute.parse_args::<Ident>() {
            Ok(option) if option == "skip" => skipped = true,
            _ => {
                let text = "the only option of a tree's field is #[tree(skip)]";
                return Err(Error::new_spanned(attribute, text));
            }
        }
    }
    Ok(skipped)
}

/// `{ weight: part0, bias: part1 }`, with numbers for the fields of a tuple.
fn pattern(parts: &[Part]) -> Tokens {
    let bindings = parts.iter().map(|Part { member, binding, .. }| quote! { #member: #binding });
    quote! { { #(#bindings),* } }
}

/// Shows the visitor each field.
fn visits(parts: &[Part]) -> Tokens {
    let visit = |Part { member, binding, ty, skipped }: &Part| {
        if *skipped {
            return quote_spanned! { ty.span() => visitor.fact(#binding); };
        }
        let step = match member {
            Member::Named(name) => {
                let text = name.unraw().to_string();
                quote! { ::pullback::tree::Step::Field(#text) }
            }
            Member::Unnamed(index) => {
                let index = index.index as usize;
                quote! { ::pullback::tree::Step::Index(#index) }
            }
        };
        quote_spanned! { ty.span() => ::pullback::tree::visit_part::<#ty>(visitor, #step, #binding); }
    };
    parts.iter().map(visit).collect()
}

/// `{ weight: rebuilt, bias: rebuilt }`
fn rebuilt(parts: &[Part]) -> Tokens {
    let fields = parts.iter().map(|Part { member, binding, ty, skipped }| {
        let value = if *skipped {
            quote_spanned! { ty.span() => <#ty as ::core::clone::Clone>::clone(#binding) }
        } else {
            quote_spanned! { ty.span() => <#ty as ::pullback::tree::Tree>::rebuild(#binding, replace) }
        };
        quote! { #member: #value }
    });
    quote! { { #(#fields),* } }
}

/// Type parameters of tensors' fields are trees; those of configuration can be cloned and told apart. One that occurs
/// in both is both.
fn add_bounds(generics: &mut Generics, parts: &[Part]) {
    for parameter in generics.type_params_mut() {
        let occurs = |skipped| {
            parts.iter().any(|part| part.skipped == skipped && mentions(&part.ty, &parameter.ident))
        };
        let (is_tree, is_configuration) = (occurs(false), occurs(true));
        if is_tree {
            parameter.bounds.push(parse_quote! { ::pullback::tree::Tree });
        }
        if is_configuration || !is_tree {
            parameter.bounds.extend::<[syn::TypeParamBound; 5]>([
                parse_quote! { ::core::clone::Clone },
                parse_quote! { ::core::fmt::Debug },
                parse_quote! { ::core::marker::Send },
                parse_quote! { ::core::marker::Sync },
                parse_quote! { 'static },
            ]);
        }
    }
}

fn mentions(ty: &Type, name: &Ident) -> bool {
    fn among(tokens: Tokens, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => among(group.stream(), name),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    among(ty.to_token_stream(), name)
}
