// The form leads back to the page whose address led to it: a browser keeps the part after # when it is redirected.
const form = document.querySelector("form");
if (form) form.action = `/login${location.hash}`;

export {};
