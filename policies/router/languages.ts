import { Utf8, data } from "@flynnhost/policy";
import { tokens } from "./tokens";

/** The words that a language cannot do without, and its neighbours can. "words_xx" in the data replaces a list or makes a new one. */
const stopWords = new Map<string, string[]>();

stopWords.set("cs", tokens("a je se na že to jsem jak co ale když nebo jsou může jako bych která který proč děkuji prosím už není také jen"));
stopWords.set("da", tokens("og det er jeg ikke på af til har hvordan hvad kan med den der også men eller tak skal vi være noget hvorfor"));
stopWords.set("de", tokens("der die das und ist nicht ich ein eine zu mit auf für den dem wie was kann bitte wir sie auch aber oder warum"));
stopWords.set("en", tokens("the and is are not you of to it that this what how can please with for we they was my have do why should"));
stopWords.set("es", tokens("el los las y es no que de en una por para con cómo qué puedo está pero gracias muy también porque del como"));
stopWords.set("fi", tokens("ja on ei se että minä mitä miten voi kiitos mutta tai ole niin myös kun joka mikä kuinka olen oli missä"));
stopWords.set("fr", tokens("le les des et est pas je une que pour avec dans sur comment quoi vous nous mais ou merci pourquoi cette du au"));
stopWords.set("hu", tokens("az és nem hogy egy van mit kérem de vagy is mert köszönöm hogyan ez meg csak már lehet nekem ha ki mi"));
stopWords.set("it", tokens("il gli le e di che non è per con una sono come cosa puoi grazie perché ma anche della questo del nel mi"));
stopWords.set("nl", tokens("de het een en is niet ik van dat wat hoe kan met voor je wij ook maar of waarom naar deze op bij"));
stopWords.set("no", tokens("og det er jeg ikke på av til har hvordan hva kan med den som også men eller takk skal vi være noe hvorfor"));
stopWords.set("pl", tokens("i nie jest się na że to jak co dla czy mogę proszę ale lub dlaczego tego jestem są może od przez kiedy"));
stopWords.set("pt", tokens("o os as e é não que de uma para com como está mas obrigado por você muito também porque do da em um"));
stopWords.set("ro", tokens("și este nu un o de la cu pentru cum ce pot mulțumesc dar sau sunt din care mai să am ca unde"));
stopWords.set("sv", tokens("och det är jag inte på av till har hur vad kan med den som också men eller tack ska vi vara något varför"));
stopWords.set("tr", tokens("ve bir bu için ne nasıl değil mi ben da de çok ama var yok lütfen teşekkürler neden gibi olan daha ile"));
stopWords.set("bg", tokens("и не е на да се че как какво това за от съм ще може ли моля защо но или са благодаря като този"));
stopWords.set("ru", tokens("и не в на я что это как мне по для с вы мы но или почему можно пожалуйста есть уже если только быть"));
stopWords.set("uk", tokens("і не в на я що це як мені для з ви ми але або чому можна будь ласка є вже якщо тільки бути та"));

/** One language that the configuration routes. */
export class Language {
  readonly words: string[]; // that show it

  constructor(
    readonly code: Utf8,
    readonly agent: Utf8,
  ) {
    this.words = wordsOf(code.toString());
  }
}

function wordsOf(code: string): string[] {
  const own = data("words_" + code);
  if (own === null) {
    if (!stopWords.has(code)) throw new Error("no words are known for the language " + code + ": list some as words_" + code);
    return stopWords.get(code);
  }
  const list = tokens(own.toString());
  if (list.length == 0) throw new Error("words_" + code + " is empty");
  return list;
}

/** The language that most words of the text show, if these are at least so many and no other language has as many; else null. */
export function mainLanguage(text: Utf8, languages: Language[], least: i32): Language | null {
  const said = counted(text.toString());
  let best: Language | null = null;
  let most = 0;
  let tie = false;
  for (let i = 0; i < languages.length; i++) {
    const n = shown(said, languages[i].words);
    if (n > most) best = languages[i];
    tie = n == most || (tie && n < most);
    most = max(n, most);
  }
  return most >= least && !tie ? best : null;
}

/** How often the text has each word. */
function counted(text: string): Map<string, i32> {
  const counts = new Map<string, i32>();
  const list = tokens(text);
  for (let i = 0; i < list.length; i++) counts.set(list[i], (counts.has(list[i]) ? counts.get(list[i]) : 0) + 1);
  return counts;
}

/** How many words of the text are of the list. */
function shown(said: Map<string, i32>, list: string[]): i32 {
  let n = 0;
  for (let i = 0; i < list.length; i++) {
    if (said.has(list[i])) n += said.get(list[i]);
  }
  return n;
}
